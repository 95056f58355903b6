"""Compare: two of anything side by side, on one scale, with what differs between them."""

from gpt2viz.app.views import compare

compare.show()
