"""A run of eight small steps, to be cut off; with nothing loaded that only a test needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpt2viz.training.batches import Stream
from gpt2viz.training.recipe import Phase, Recipe
from gpt2viz.training.train import Trainer

RECIPE = Recipe(
    vocab_size=600,
    n_positions=32,
    n_embd=24,
    n_layer=2,
    n_head=2,
    phases=(Phase(3, 4, 16, 1.0), Phase(5, 4, 32, 0.25)),
    warmup=2,
    points=(2, 4, 6, 8),
)


def stream() -> Stream:
    rng = np.random.default_rng(0)
    return Stream(rng.integers(0, 600, 5000), np.arange(0, 5000, 50), 600)


def held_out() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 600, (2, 32))


def trained(folder: Path, *stops: int, recipe: Recipe = RECIPE) -> Trainer:
    """Train up to each stop in turn, with a new process's trainer every time."""
    folder.mkdir(exist_ok=True)
    for stop in stops:
        trainer = Trainer(recipe, stream(), held_out(), folder)
        trainer.advance(stop, lambda _line: None, every=2)
    return trainer
