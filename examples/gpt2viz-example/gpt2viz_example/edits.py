"""A head that comes one token late: an edit that gpt2viz doesn't have."""

from __future__ import annotations

from torch import Tensor

from gpt2viz import EditKind


def one_later(heads: Tensor) -> Tensor:
    """What a head puts out, one token later, and 0 for the first: (B, T, hs) -> (B, T, hs)."""
    late = heads.roll(1, dims=1)
    late[:, 0] = 0
    return late


LATE = EditKind("late", "outputs what it computed for the token before", one_later)
