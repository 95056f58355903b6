"""Interpolated n-gram models, as a baseline for a trained network's loss.

With h a context, h' the same without its first token, c(h w) the count of w after h, c(h)
their sum, and the uniform 1 / vocab_size below the empty context:

Witten–Bell (Witten & Bell 1991; Chen & Goodman 1999, section 2.4), t(h) different tokens after h:

    P(w | h) = (c(h w) + t(h) P(w | h')) / (c(h) + t(h))

Modified Kneser–Ney (Chen & Goodman 1999, section 3), each count less a discount D that depends on
whether it is 1, 2 or more, and Nₖ(h) the tokens that followed h once, twice, more often:

    P(w | h) = (c(h w) − D(c(h w)) + (D₁ N₁(h) + D₂ N₂(h) + D₃ N₃(h)) P(w | h')) / c(h)

where all orders but the highest replace c(h w) by the number of different tokens before h w.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpt2viz.arrays import Numbers
from gpt2viz.training.batches import Ids


@dataclass(eq=False)
class _Level:
    """All G n-grams of one length, each identified by its index in ``keys``."""

    keys: Ids
    """Place of the n-gram's context among the shorter ones, times vocab_size, plus its last
    token: sorted, (G,)."""
    of: Ids
    """Place of the n-gram's context among the shorter ones: (G,)."""
    counts: Ids
    """c(h w): (G,)."""
    contexts: int
    """The number of contexts, which are the shorter n-grams."""
    before: Ids | None = None
    """Different tokens before the n-gram: (G,), or None for the longest."""


class NGrams:
    """The counts of all n-grams of 1 to ``order`` tokens in one long text."""

    def __init__(self, ids: Ids, vocab_size: int, order: int = 5) -> None:
        """Count the n-grams of token ids (N,), each from 0 to ``vocab_size`` - 1.

        Raises ``ValueError`` if the text is shorter than ``order`` tokens, or an id is outside.
        """
        if len(ids) < order or order < 1:
            raise ValueError(f"{len(ids)} tokens are too few to count n-grams of {order}")
        if ids.min() < 0 or ids.max() >= vocab_size:
            raise ValueError(f"a token id is outside 0 … {vocab_size - 1}")
        self.vocab_size = vocab_size
        self._levels: list[_Level] = []
        positions, contexts = np.zeros(len(ids) + 1, np.int64), 1  # the empty n-gram at each
        for n in range(1, order + 1):
            whole = positions[: len(ids) - n + 1] * vocab_size + ids[n - 1 :]
            keys, first, now, counts = np.unique(
                whole, return_index=True, return_inverse=True, return_counts=True
            )
            if n > 1:  # each different n-gram is one more token before its own end
                self._levels[-1].before = np.bincount(positions[first + 1], minlength=contexts)
            self._levels.append(_Level(keys, keys // vocab_size, counts, contexts))
            positions, contexts = now, len(keys)

    def witten_bell(self, rows: Ids) -> Numbers:
        """P of every token by every order: rows (B, T) -> (order, B, T).

        Order n sees at most the previous n - 1 tokens of the token's own row. For a
        context with a count of 0 the probability is that of the next lower order.
        """
        probabilities = np.empty((len(self._levels), *rows.shape))
        lower = np.full(rows.shape, 1 / self.vocab_size)  # (B, T)
        for n, (level, of, at) in enumerate(self._positions(rows)):
            total = np.bincount(level.of, level.counts, level.contexts)
            kinds = np.bincount(level.of, minlength=level.contexts)
            count = np.where(at >= 0, level.counts[at], 0)
            before = lower[:, n:]
            mixed = (count + kinds[of] * before) / np.maximum(total[of] + kinds[of], 1)
            probabilities[n] = lower
            probabilities[n, :, n:] = np.where((of >= 0) & (total[of] > 0), mixed, before)
            lower = probabilities[n]
        return probabilities

    def kneser_ney(self, rows: Ids) -> Numbers:
        """P of every token by every order, as ``witten_bell``: rows (B, T) -> (order, B, T)."""
        probabilities = np.empty((len(self._levels), *rows.shape))
        lower = np.full(rows.shape, 1 / self.vocab_size)  # (B, T), by tokens before
        for n, (level, of, at) in enumerate(self._positions(rows)):
            probabilities[n] = lower
            probabilities[n, :, n:] = _discount(level, level.counts, of, at, lower[:, n:])
            if level.before is not None:
                lower = lower.copy()
                lower[:, n:] = _discount(level, level.before, of, at, lower[:, n:])
        return probabilities

    def _positions(self, rows: Ids) -> Iterator[tuple[_Level, Ids, Ids]]:
        """For every level: the indices of the contexts and of the n-grams that end at each token
        from n − 1 on, (B, T − n + 1) each, and −1 for those with a count of 0.
        """
        T = rows.shape[1]
        positions = np.zeros((len(rows), T + 1), np.int64)
        for n, level in enumerate(self._levels, start=1):
            of = positions[:, : max(0, T - n + 1)]
            whole = np.where(of >= 0, of * self.vocab_size + rows[:, n - 1 :], -1)
            at = np.searchsorted(level.keys, whole).clip(max=len(level.keys) - 1)
            positions = np.where(level.keys[at] == whole, at, -1)
            yield level, of, positions


def _discount(level: _Level, counts: Ids, of: Ids, at: Ids, lower: Numbers) -> Numbers:
    """Modified Kneser–Ney's P from one level's counts (G,) and P of the order below."""
    discounts = _discounts(counts)  # (4,), for counts of 0, 1, 2 and more
    class_of = counts.clip(max=3)
    total = np.bincount(level.of, counts, level.contexts)[of]
    left = np.bincount(level.of, discounts[class_of], level.contexts)[of]
    count = np.where(at >= 0, counts[at] - discounts[class_of[at]], 0.0)
    mixed = (count + left * lower) / np.maximum(total, 1)
    probabilities: Numbers = np.where((of >= 0) & (total > 0), mixed, lower)
    return probabilities


def _discounts(counts: Ids) -> Numbers:
    """D of counts 0, 1, 2 and more, from how many n-grams were counted 1 to 4 times: (4,).

    Chen & Goodman 1999, equation 17. If a small text has no n-gram with one of these counts, or a
    discount would be negative, it is half a count.
    """
    n1, n2, n3, n4 = (int((counts == k).sum()) for k in (1, 2, 3, 4))
    if not n1 or not n2 or not n3:
        return np.array([0.0, 0.5, 0.5, 0.5])
    y = n1 / (n1 + 2 * n2)
    discounts = np.array([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    return np.where(discounts >= 0, discounts, [0.0, 0.5, 0.5, 0.5])
