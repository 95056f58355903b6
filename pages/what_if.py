"""What if: change something inside the model, or see what the answer depends on."""

from gpt2viz.app.views import what_if

what_if.show()
