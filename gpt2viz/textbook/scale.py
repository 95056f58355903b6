"""Why scores are divided by √hs: longer vectors give larger scores, and softmax a single winner."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook.claims import Claim
from gpt2viz.textbook.draws import normal
from gpt2viz.textbook.steps import rows

#: One draw may show the opposite of what holds on average.
DRAWS = 400


class Spread(NamedTuple):
    """A mean, and what eight of ten draws lie between."""

    mean: float
    low: float
    high: float


@lru_cache(maxsize=32)
def score_variance(hs: int, n_pairs: int = 40_000, seed: int = 0) -> tuple[float, float]:
    """Variance of q·k, and of q·k / √hs, for random q and k (n_pairs, hs).

    Each of their numbers is drawn from a normal distribution of variance 1, so that q·k is a sum
    of hs products of variance 1: its variance is hs (Vaswani et al. 2017, footnote 4).
    """
    q, k = normal(2, n_pairs, hs, seed=seed)
    scores = (q * k).sum(dim=-1)  # (n_pairs,)
    return float(scores.var()), float((scores / math.sqrt(hs)).var())


def random_scores(hs: int, n_draws: int = DRAWS, n_keys: int = 8, seed: int = 0) -> Tensor:
    """The scores (n_draws, n_keys) of random queries, each with as many random keys of its own."""
    drawn = normal(n_draws, 1 + n_keys, hs, seed=seed)
    queries, keys = drawn[:, 0], drawn[:, 1:]  # (n_draws, hs), (n_draws, n_keys, hs)
    return (keys @ queries[:, :, None])[:, :, 0]


def sharpness(scores: ArrayLike, divisor: float) -> Tensor:
    """Softmax of scores (…, n) over a divisor, the largest weight first: (…, n)."""
    weights = torch.softmax(rows(scores) / divisor, dim=-1)
    return weights.sort(dim=-1, descending=True).values


def largest(scores: ArrayLike, divisor: float) -> Spread:
    """The largest weight of each draw of ``random_scores``: its mean and spread."""
    first = sharpness(scores, divisor)[:, 0]
    low, high = first.quantile(torch.tensor([0.1, 0.9])).tolist()
    return Spread(float(first.mean()), low, high)


def scale_claims() -> list[Claim]:
    """E22, with 64 channels."""
    raw, scaled = score_variance(64)
    scores = random_scores(64)
    return [
        Claim("variance of the scores, hs = 64", "~64", raw),
        Claim("variance of the scores over √64", "~1", scaled),
        Claim(f"largest weight of 8, mean of {DRAWS} draws, unscaled", "", largest(scores, 1).mean),
        Claim(f"largest weight of 8, mean of {DRAWS} draws, over √64", "", largest(scores, 8).mean),
    ]
