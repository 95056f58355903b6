"""A run of eight small steps that tests interrupt; imports nothing that only a test needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpt2viz.training.batches import Stream, Text
from gpt2viz.training.recipe import Nudge, Phase, Recipe
from gpt2viz.training.train import Trainer

RECIPE = Recipe(
    vocab_size=600,
    n_positions=32,
    n_embd=24,
    n_layer=2,
    n_head=2,
    phases=(Phase(3, 4, 16, 0.5, 0.5), Phase(3, 4, 32, 0.25), Phase(2, 4, 32, 0.25, 1.0, 0.1)),
    nudges=(Nudge(0, 0, "previous token", 2), Nudge(1, 1, "first token", 5)),
    warmup=2,
    points=(2, 4, 6, 8),
)


def stream() -> Stream:
    rng = np.random.default_rng(0)
    own, more = (
        Text(rng.integers(0, 599, size).astype(np.uint16), np.arange(0, size, 50))
        for size in (5000, 9000)
    )
    return Stream(own, more, 600)


def held_out() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 600, (2, 32))


def train(folder: Path, *stops: int, recipe: Recipe = RECIPE) -> Trainer:
    """Train up to each stop in turn, with a new process's trainer every time."""
    folder.mkdir(exist_ok=True)
    for stop in stops:
        trainer = Trainer(recipe, stream(), held_out(), folder)
        trainer.advance(stop, lambda _line: None, every=2)
    return trainer
