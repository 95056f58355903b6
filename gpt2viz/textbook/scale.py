"""Why scores are divided by √hs: longer vectors give larger scores, and softmax a single winner."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook.claims import Claim
from gpt2viz.textbook.draws import normal
from gpt2viz.textbook.steps import rows


@lru_cache(maxsize=32)
def score_variance(hs: int, n_pairs: int = 40_000, seed: int = 0) -> tuple[float, float]:
    """Variance of q·k, and of q·k / √hs, for random q and k (n_pairs, hs).

    Each of their numbers is drawn from a normal distribution of variance 1, so that q·k is a sum
    of hs products of variance 1: its variance is hs (Vaswani et al. 2017, footnote 4).
    """
    q, k = normal(2, n_pairs, hs, seed=seed)
    scores = (q * k).sum(dim=-1)  # (n_pairs,)
    return float(scores.var()), float((scores / math.sqrt(hs)).var())


def random_scores(hs: int, n_keys: int = 8, seed: int = 0) -> Tensor:
    """The scores (n_keys,) of one random query with as many random keys."""
    q, *keys = normal(1 + n_keys, hs, seed=seed)
    scores: Tensor = torch.stack(keys) @ q
    return scores


def sharpness(scores: ArrayLike, divisor: float) -> Tensor:
    """Softmax of scores (n,) over a divisor: the smaller it is, the more the largest takes."""
    return torch.softmax(rows(scores) / divisor, dim=-1)


def scale_claims() -> list[Claim]:
    """E22, with 64 channels."""
    raw, scaled = score_variance(64)
    scores = random_scores(64)
    return [
        Claim("variance of the scores, hs = 64", "~64", raw),
        Claim("variance of the scores over √64", "~1", scaled),
        Claim("largest weight of 8, unscaled", "", sharpness(scores, 1).max()),
        Claim("largest weight of 8, over √64", "", sharpness(scores, 8).max()),
    ]
