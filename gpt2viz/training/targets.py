"""The targets of a bundled model: figures that an evaluation has to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

import gpt2viz
from gpt2viz.analysis.top_attention import TopAttention, strongest_links
from gpt2viz.arrays import Array
from gpt2viz.model.mask import hidden_pairs

#: The text that the app opens with.
FIRST_TEXT = "A crane ate fish"


def most_alike(weights: Sequence[Array]) -> float:
    """The highest cosine similarity of two heads' weights, without the first row.

    ``weights`` are n_layer arrays (B, nh, T, T); the texts of a batch are concatenated.
    """
    heads = [w[:, :, 1:].swapaxes(0, 1).reshape(w.shape[1], -1) for w in weights]
    rows = np.concatenate(heads).astype(np.float32)  # (H, B · (T − 1) · T)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosine: Array = unit @ unit.T
    np.fill_diagonal(cosine, -1)
    return float(cosine.max())


def mean_largest(weights: Array) -> float:
    """The mean over all rows but the first of the largest weight: (…, T, T), in [0, 1]."""
    return float(weights[..., 1:, :].max(axis=-1).mean())


def saturated_share(weights: Array) -> float:
    """The share of weights that print as 0.00 or 1.00: (…, T, T).

    Masked weights and the first row are left out.
    """
    T = weights.shape[-1]
    seen = ~hidden_pairs(torch.arange(T), causal=True).numpy()
    seen[0] = False
    cells = weights[..., seen]
    return float(((cells < 0.005) | (cells >= 0.995)).mean())


def first_view(model: gpt2viz.Model) -> dict[str, float]:
    """For the text that the app opens with: its number of tokens, and the mean largest weight of
    the head that the app shows first (see ``TopAttention.opening``)."""
    run = gpt2viz.trace(model, FIRST_TEXT)
    weights = [run.stage("weights", n)[0] for n in range(model.config.n_layer)]  # (nh, T, T) each
    by_layer = [strongest_links(layer) for layer in weights]
    layer, head = TopAttention(*map(np.stack, zip(*by_layer, strict=True))).opening()
    return {"tokens": len(run.token_ids), "largest": mean_largest(weights[layer][head])}


Figures = Mapping[str, Any]


def best_head(layers: Sequence[Sequence[float]]) -> tuple[float, str]:
    """The highest score and its head's name, ``layer.head`` from 0."""
    return max((score, f"{n}.{h}") for n, row in enumerate(layers) for h, score in enumerate(row))


@dataclass(frozen=True)
class Target:
    """One figure of a model, which has to be ``at`` most or at least the ``limit``."""

    what: str
    at: Literal["most", "least"]
    limit: float
    figure: Callable[[Figures], float]

    def is_reached(self, figures: Figures) -> bool:
        """True for a model whose figures are within the limit."""
        value = self.figure(figures)
        return value <= self.limit if self.at == "most" else value >= self.limit


def _best(*habits: str) -> Callable[[Figures], float]:
    return lambda figures: max(best_head(figures["heads"][habit])[0] for habit in habits)


def _repeat_loss(period: str) -> Callable[[Figures], float]:
    return lambda figures: float(figures["repetition"][period]["second"])


def _gain_of_context(figures: Figures) -> float:
    """The loss of the last eighth of the context, in nats below the lowest before it."""
    *before, last = figures["loss by position"].values()
    return float(min(before) - last)


TARGETS = (
    Target("bits per byte of held-out text", "most", 1.42, lambda f: f["bits per byte"]),
    Target("nats gained by the last eighth of the context", "least", 0, _gain_of_context),
    *(
        Target(f"nats a token for {n} random tokens said again", "most", 0.5, _repeat_loss(n))
        for n in ("16", "32", "64")
    ),
    Target("best previous-token head", "least", 0.8, _best("previous token")),
    Target("best induction head", "least", 0.6, _best("induction")),
    Target("best first-token head, whole contexts", "least", 0.5, _best("first token")),
    Target(
        "best duplicate- or same-token head",
        "least",
        0.5,
        _best("duplicate token", "same token"),
    ),
    Target("cosine of the two heads most alike", "most", 0.95, lambda f: f["weights"]["alike"]),
    Target(
        "mean largest weight in layer 0", "most", 0.8, lambda f: f["weights"]["largest in layer 0"]
    ),
    Target(
        "share of layer 0 that prints as 0.00 or 1.00, in openings of 16 tokens",
        "most",
        0.4,
        lambda f: f["weights"]["saturated in layer 0"],
    ),
    Target(f"tokens of “{FIRST_TEXT}”", "most", 4, lambda f: f["first view"]["tokens"]),
    Target(
        "mean largest weight in the head that it opens on",
        "most",
        0.8,
        lambda f: f["first view"]["largest"],
    ),
    Target("MB of the weights, float16", "most", 16, lambda f: f["bytes"] / 1e6),
)


def best_of(figures: Mapping[str, Figures]) -> str:
    """The name of the model that reaches most targets; among equals, that with fewest bits."""

    def rank(name: str) -> tuple[int, float]:
        reached = sum(target.is_reached(figures[name]) for target in TARGETS)
        return reached, -figures[name]["bits per byte"]

    return max(figures, key=rank)
