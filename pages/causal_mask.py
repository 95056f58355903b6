"""Causal mask: the same head and the same prediction with the mask on and off."""

from gpt2viz.app.views import causal_mask

causal_mask.show()
