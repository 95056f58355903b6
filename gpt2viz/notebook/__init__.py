"""A trace in a notebook."""
