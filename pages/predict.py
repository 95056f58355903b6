"""Predict: what comes next, and how the text goes on token by token."""

from gpt2viz.app.views import predict

predict.show()
