"""Attention: every head of one layer at a glance, and one of them large."""

from gpt2viz.app.views import attention

attention.show()
