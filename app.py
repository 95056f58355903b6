"""Attention: every head of every layer, one of them large."""

from gpt2viz.app.views import attention

attention.show()
