"""What a model is made of and what it costs, read from its files and from a run."""
