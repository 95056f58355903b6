"""Predictions: what comes next, which step of the stream decided it, and which head wrote it."""

from gpt2viz.app.views import predictions

predictions.show()
