"""Added: a page of another package."""

from gpt2viz.app.views import added

added.show()
