"""Training: how the model learned, and when each of its heads began to do its work."""

from gpt2viz.app.views import training

training.show()
