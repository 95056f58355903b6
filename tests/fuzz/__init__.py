"""Checkpoints spoiled at random, from a seed: each loads to a model that runs, or is refused."""
