"""One forward pass of a model, the trace it leaves, and the edits that change it."""
