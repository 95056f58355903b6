"""A model's parts and costs, read from its files and from a run."""
