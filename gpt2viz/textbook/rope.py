"""Positions by rotation: a score then depends on how far apart query and key are, not on where.

J. Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook.steps import rows
from gpt2viz.textbook.variants import ShapeError

BASE = 10_000.0

# A query and a key of four numbers: two pairs.
QUERY = (1.0, 0.0, 0.5, 0.5)
KEY = (0.8, 0.6, 0.5, -0.5)


def angles(positions: Sequence[int], hs: int, base: float = BASE) -> Tensor:
    """By how much each pair is turned at each position, in radians: (T, hs / 2).

    One step turns pair i by base^(−2i / hs): the first pair fastest. In float64, since after many
    turns float32 has too few digits left. Raises ``ShapeError`` where hs is odd.
    """
    if hs % 2:
        raise ShapeError(f"{hs} numbers don't make pairs. Choose an even head size.")
    speeds = base ** (-torch.arange(0, hs, 2, dtype=torch.float64) / hs)  # (hs / 2,)
    return torch.tensor(positions, dtype=torch.float64)[:, None] * speeds


def rotate(x: ArrayLike, positions: Sequence[int], base: float = BASE) -> Tensor:
    """Each pair of neighbours in a row of x (T, hs) turned by its angle: (T, hs), float64."""
    x = rows(x).double()
    turn = angles(positions, x.shape[1], base)
    cos, sin = turn.cos(), turn.sin()
    one, other = x[:, 0::2], x[:, 1::2]  # (T, hs / 2) each
    turned = torch.stack([one * cos - other * sin, one * sin + other * cos], dim=-1)
    return turned.flatten(1)  # pairs side by side again


def score(q: ArrayLike, k: ArrayLike, at: int, key_at: int, base: float = BASE) -> float:
    """The dot product of q (hs,), turned for position ``at``, and k (hs,), for ``key_at``."""
    turned = rotate(torch.stack([rows(q), rows(k)]), [at, key_at], base)
    return float(turned[0] @ turned[1])


def by_distance(q: ArrayLike, k: ArrayLike, furthest: int, base: float = BASE) -> list[float]:
    """The score of q (hs,) and k (hs,) where the key stands 0, 1, … ``furthest`` tokens back."""
    query = rotate(rows(q)[None], [furthest], base)[0]
    keys = rotate(rows(k).repeat(furthest + 1, 1), range(furthest, -1, -1), base)
    return (keys @ query).tolist()
