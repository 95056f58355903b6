"""Inside a head: from Q, K and V to the output, and one cell's sum written out."""

from gpt2viz.app.views import inside_a_head

inside_a_head.show()
