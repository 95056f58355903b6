"""What a visitor must see: the same runs, one after the other, in a process of their own."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

import gpt2viz
from gpt2viz.pictures.pooling import THUMBNAIL

WORDS = (
    *("the", "cat", "sat", "on", "a", "mat", "and", "then", "dog", "ate", "fish", "near", "old"),
    *("river", "bank", "while", "John", "slept"),
)
MASK, GENERATE = "side_by_side?differs=mask", "predict?predict=generate"
#: Pages whose pictures are compared, and pages that only must not fail.
COMPARED = ("", "head", MASK)
OTHERS = ("predict", "side_by_side", "shapes", "find", "what_if", "training", GENERATE)

_turn = Lock()


class Wish(NamedTuple):
    """What a visitor asks for."""

    page: str
    text: str
    model: str
    causal: bool
    layer: int
    head: int

    def parameters(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "model": self.model,
            "causal": str(self.causal).lower(),
            "layer": self.layer,
            "head": self.head,
        }


def sentences(visitor: int, count: int = 6) -> list[str]:
    """Sentences of one visitor: each begins with a mark that no other visitor types."""
    rng = Random(visitor)
    return [" ".join([mark(visitor), *rng.choices(WORDS, k=3 + n)]) for n in range(count)]


def mark(visitor: int) -> str:
    return f"Visitor{visitor}z"


def wish(visitor: int, rng: Random, models: list[str]) -> Wish:
    page = rng.choice(COMPARED) if rng.random() < 0.75 else rng.choice(OTHERS)
    text = rng.choice(sentences(visitor))
    return Wish(
        page, text, rng.choice(models), rng.random() < 0.7, rng.randrange(3), rng.randrange(4)
    )


class Serial:
    """The weights that a wish must show, from a model that nobody else uses."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._models = {name: gpt2viz.load_model(folder) for name, folder in folders.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._models)

    @lru_cache(maxsize=4000)  # noqa: B019 (one for the whole soak)
    def weights(self, model: str, text: str, causal: bool) -> np.ndarray:
        """(n_layer, nh, T, T)."""
        with _turn:
            trace = gpt2viz.trace(self._models[model], text, causal=causal)
            layers = range(trace.config.n_layer)
            return np.stack([trace.stage("weights", layer)[0] for layer in layers])

    def pictures(self, wanted: Wish) -> dict[str, list[np.ndarray]]:
        """Chart -> its matrices, for a page of ``COMPARED``."""
        layer, head = wanted.layer, wanted.head
        if wanted.page == MASK:
            both = (self.weights(wanted.model, wanted.text, causal) for causal in (True, False))
            return {"both_sides": [weights[layer, head] for weights in both]}
        every = self.weights(wanted.model, wanted.text, wanted.causal)
        weights = every[layer]
        if wanted.page == "head":
            return {"stage_weights": [weights[head]]}
        small = [shrunk(one) for heads in every for one in heads]
        return {"all_heads": small, "one_head": [weights[head]]}


def shrunk(matrix: np.ndarray) -> np.ndarray:
    """The largest weight of each of a thumbnail's blocks, where the sentence is longer than one."""
    T = len(matrix)
    ends = [n * T // THUMBNAIL for n in range(THUMBNAIL + 1)] if T > THUMBNAIL else range(T + 1)
    blocks = [slice(*pair) for pair in pairwise(ends)]
    return np.array([[matrix[rows, columns].max() for columns in blocks] for rows in blocks])
