"""A model that only counts: interpolated n-grams, to hold a trained network's loss against.

Witten–Bell smoothing (Witten & Bell 1991; Chen & Goodman 1999, section 2.4). With c(h w) the times
that w followed the context h, c(h) their sum, and t(h) the number of different tokens after h:

    P(w | h) = (c(h w) + t(h) P(w | h')) / (c(h) + t(h))

where h' is h without its first token, and below the empty context stands 1 / vocab_size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Level:
    """All n-grams of one length, G of them, each known by its place in ``keys``."""

    keys: Ids
    """Place of the n-gram's context among the shorter ones, times vocab_size, plus its last
    token: sorted, (G,)."""
    counts: Ids
    """c(h w): (G,)."""
    totals: Ids
    """c(h) of every context h: (contexts,)."""
    kinds: Ids
    """t(h) of every context h: (contexts,)."""


class NGrams:
    """The counts of all n-grams of 1 to ``order`` tokens in one long text."""

    def __init__(self, ids: Ids, vocab_size: int, order: int = 5) -> None:
        """Count in token ids (N,), each from 0 to ``vocab_size`` - 1.

        Raises ``ValueError`` where the text is shorter than ``order`` tokens, or an id is outside.
        """
        if len(ids) < order or order < 1:
            raise ValueError(f"{len(ids)} tokens are too few to count n-grams of {order}")
        if ids.min() < 0 or ids.max() >= vocab_size:
            raise ValueError(f"a token id is outside 0 … {vocab_size - 1}")
        self.vocab_size, self._levels = vocab_size, list[_Level]()
        places, contexts = np.zeros(len(ids) + 1, np.int64), 1  # the empty n-gram, everywhere
        for n in range(1, order + 1):
            whole = places[: len(ids) - n + 1] * vocab_size + ids[n - 1 :]
            keys, places, counts = np.unique(whole, return_inverse=True, return_counts=True)
            of = keys // vocab_size
            totals = np.bincount(of, counts, contexts).astype(np.int64)
            self._levels.append(_Level(keys, counts, totals, np.bincount(of, minlength=contexts)))
            contexts = len(keys)

    def probabilities(self, rows: Ids) -> Numbers:
        """P of every token by every order: rows (B, T) -> (order, B, T).

        Order n sees at most the n - 1 tokens before, and none outside the token's own row. A
        context that was never counted says nothing: there the next lower order speaks alone.
        """
        T = rows.shape[1]
        found = np.empty((len(self._levels), *rows.shape))
        lower = np.full(rows.shape, 1 / self.vocab_size)  # (B, T)
        places = np.zeros((len(rows), T + 1), np.int64)  # of the context that starts at t; -1: new
        for n, level in enumerate(self._levels, start=1):
            now = found[n - 1]
            now[:] = lower
            width = max(0, T - n + 1)
            of = places[:, :width]
            whole = np.where(of >= 0, of * self.vocab_size + rows[:, n - 1 :], -1)
            at = np.searchsorted(level.keys, whole).clip(max=len(level.keys) - 1)
            seen = level.keys[at] == whole
            total, kinds = (
                np.where(of >= 0, values[of], 0) for values in (level.totals, level.kinds)
            )
            count = np.where(seen, level.counts[at], 0)
            before = lower[:, n - 1 :]
            mixed = (count + kinds * before) / np.maximum(total + kinds, 1)
            now[:, n - 1 :] = np.where(total > 0, mixed, before)
            places, lower = np.where(seen, at, -1), now
        return found
