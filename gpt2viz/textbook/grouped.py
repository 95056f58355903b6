"""Query heads that share keys and values in groups, so that less has to be kept.

J. Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
Checkpoints". Shapes: nh query heads, n_kv key and value heads, T tokens, C channels, hs channels
of a head.
"""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook.draws import normal
from gpt2viz.textbook.steps import Steps, attend, rows
from gpt2viz.textbook.variants import ShapeError


class Shared(NamedTuple):
    """Each query head's steps, and the ``group`` whose keys and values it read."""

    heads: list[Steps]
    group: list[int]


def drawn_heads(nh: int, hs: int, C: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """W_Q, W_K and W_V of nh heads, (nh, hs, C) each: twice standard normal numbers from a seed."""
    w_q, w_k, w_v = 2 * normal(3, nh, hs, C, seed=seed)
    return w_q, w_k, w_v


def pool(w: ArrayLike, n_kv: int) -> Tensor:
    """The tables w (nh, hs, C) of nh heads as n_kv: each the mean of a group (section 2.1).

    Raises ``ShapeError`` where the groups can't be of one size.
    """
    w = rows(w)
    if len(w) % n_kv:
        raise ShapeError(
            f"{len(w)} query heads can't be shared out equally among {n_kv} groups: {len(w)} / "
            f"{n_kv} = {len(w) / n_kv:.2f}. Choose a number of groups that divides {len(w)}."
        )
    return w.reshape(n_kv, -1, *w.shape[1:]).mean(dim=1)


def share(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike) -> Shared:
    """x (T, C) through nh causal query heads, w_q (nh, hs, C), and w_k and w_v (n_kv, hs, C).

    Query head n reads the keys and values of group n · n_kv / nh, rounded down.
    """
    q, k, v = (rows(x) @ rows(w).mT for w in (w_q, w_k, w_v))  # (nh or n_kv, T, hs)
    group = [n * len(k) // len(q) for n in range(len(q))]
    return Shared([attend(q[n], k[g], v[g], causal=True) for n, g in enumerate(group)], group)


def cache_bytes(T: int, n_kv: int, hs: int, n_layer: int = 1, width: int = 2) -> int:
    """Bytes of the keys and values of T tokens: 2 · n_layer · n_kv · T · hs numbers.

    ``width`` is the bytes of one number.
    """
    return 2 * n_layer * n_kv * T * hs * width
