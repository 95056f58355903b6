"""One forward of a model, what it left behind, and what can be changed in it."""
