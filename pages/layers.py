"""Layers: some side by side, one head in all of them, and every head of the model at a glance."""

from gpt2viz.app.views import layers

layers.show()
