"""A trace in a notebook, and the attention of any model there or as a file."""
