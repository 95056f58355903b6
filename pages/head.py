"""Head: from Q, K and V to the output, and one cell's sum written out."""

from gpt2viz.app.views import head

head.show()
