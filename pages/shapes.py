"""Shapes: every tensor of this run, in the order in which the model made it."""

from gpt2viz.app.views import shapes

shapes.show()
