"""What if: change something inside the model, run it again, and compare the two runs."""

from gpt2viz.app.views import what_if

what_if.show()
