"""Attention as geometry: how a key falls on the query's line, and values laid tip to tail."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook.steps import rows


def shadows(q: ArrayLike, k: ArrayLike) -> Tensor:
    """Where each key (T, hs) falls on the line through 0 and the query (hs,): points (T, hs).

    A score q · k is the query's length times how far its point lies from 0, with a minus on the far
    side of 0. For a query that is 0 there is no line, and all points are 0.
    """
    q, k = rows(q), rows(k)
    size = q @ q
    along = k @ q / size if size > 0 else torch.zeros(len(k))  # (T,), in lengths of the query
    return along[:, None] * q


def laid_out(weights: ArrayLike, v: ArrayLike) -> Tensor:
    """Values (T, d) shortened to their weights (T,) and put tip to tail: (T + 1, d).

    The first point is 0, the last the mixture weights · v.
    """
    pieces = rows(weights)[:, None] * rows(v)  # (T, d)
    return torch.cat([torch.zeros(1, pieces.shape[1]), pieces.cumsum(dim=0)])
