"""The weights of the four variants of attention, and what dropout leaves of them in training."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook.heads import Variant, the_variants
from gpt2viz.textbook.mlp import drop
from gpt2viz.textbook.steps import hide_later, rows
from gpt2viz.textbook.variants import MultiHeadAttention, SimplifiedAttention


class Dropped(NamedTuple):
    """Weights (T, T) as softmax made them, and after dropout; and which the mask ``hidden``."""

    weights: Tensor
    dropped: Tensor
    hidden: Tensor


def is_causal(variant: Variant) -> bool:
    """Whether no token sees a later one in it."""
    return isinstance(variant, MultiHeadAttention) or getattr(variant, "causal", False)


def weights_of(variant: Variant, x: Tensor) -> Tensor:
    """The attention weights (T, T) of one of the four variants for x (T, C); those of head 0."""
    if isinstance(variant, SimplifiedAttention):
        return torch.softmax(x @ x.T, dim=-1)
    q, k = variant.query(x), variant.key(x)  # (T, hs), or (T, C) for all heads
    if isinstance(variant, MultiHeadAttention):
        q, k = (variant.split(one[None])[0, 0] for one in (q, k))  # (T, hs)
    scores = q @ k.T / math.sqrt(q.shape[-1])  # (T, T)
    return torch.softmax(hide_later(scores) if is_causal(variant) else scores, dim=-1)


def drop_weights(
    x: ArrayLike, nh: int, seed: int, p: float, training: bool, drop_seed: int = 0
) -> dict[str, Dropped]:
    """The weights of each variant for x (T, C), parameters from a seed, and dropout with chance p.

    Dropout comes after softmax, and the same places are dropped in all four.
    """
    found, given = {}, rows(x)
    with torch.inference_mode():
        for name, variant in the_variants(given.shape[-1], nh, seed).items():
            weights = weights_of(variant, given)
            hidden = hide_later(torch.zeros_like(weights)).isneginf() & is_causal(variant)
            found[name] = Dropped(weights, drop(weights, p, training, drop_seed), hidden)
    return found
