"""Rows of tokens to train on: windows of text, and repeated random spans.

Text can be predicted in many ways; the second occurrence of a random span only by attending to the
first. Olsson et al. 2022, "In-context Learning and Induction Heads", measure heads on such rows;
here they are trained on, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Pairs
from gpt2viz.training.recipe import Phase

Ids = NDArray[np.int64]

SHORTEST_SPAN = 6
UNSCORED = -100
"""In place of an expected token: the prediction there doesn't count."""


@dataclass(frozen=True, eq=False)
class Text:
    """All books' training tokens in sequence (N,), and the positions of paragraph starts (P,)."""

    ids: NDArray[np.integer[Any]]
    starts: Ids

    def windows(self, rows: int, length: int, rng: np.random.Generator, end: int) -> Ids:
        """Rows of text (rows, length): half of them start with a paragraph, half start anywhere.

        A typed sentence starts a paragraph, so the model has to be trained on tokens such as "A" at
        position 0. Half of those rows have ``end``, the id of ``<|endoftext|>``, before them.
        """
        last = len(self.ids) - length
        n_starts = rows // 2
        anywhere = rng.integers(0, last + 1, rows - n_starts)
        starts = self.starts[: np.searchsorted(self.starts, last, side="right")]
        first = np.concatenate([anywhere, rng.choice(starts, n_starts)])
        windows = self.ids[first[:, None] + np.arange(length)].astype(np.int64)
        ended = windows[rows - n_starts // 2 :]
        ended[:, 1:] = ended[:, :-1].copy()
        ended[:, 0] = end
        return windows


class Stream:
    """The source of rows: the corpus's own text, and that of further books (or None)."""

    def __init__(self, own: Text, more: Text | None, vocab_size: int) -> None:
        self.own, self.more, self.vocab_size = own, more, vocab_size

    def text(self, rows: int, length: int, share: float, rng: np.random.Generator) -> Ids:
        """Rows of text (rows, length), an expected ``share`` of them from the corpus itself."""
        n_own = int(rng.binomial(rows, share)) if self.more else rows
        end = self.vocab_size - 1
        parts = [self.own.windows(n_own, length, rng, end)]
        if self.more:
            parts.append(self.more.windows(rows - n_own, length, rng, end))
        return np.concatenate(parts)

    def repeats(self, rows: int, length: int, rng: np.random.Generator) -> tuple[Ids, Pairs]:
        """Spans of random tokens, each repeated until the row is full.

        A span has from 6 tokens to half the row, drawn for every row, so that the earlier
        occurrence is at no fixed distance. Shorter ones could be guessed without attention. Also
        returns which tokens are predictable: none of the first occurrence, nor the first token
        of the second. Both are (rows, length).
        """
        ids, predictable = np.empty((rows, length), np.int64), np.zeros((rows, length), bool)
        for row in range(rows):
            size = rng.integers(SHORTEST_SPAN, max(SHORTEST_SPAN, length // 2) + 1)
            ids[row] = np.resize(rng.integers(0, self.vocab_size, size), length)
            predictable[row, size + 1 :] = True
        return ids, predictable

    def batch(self, phase: Phase, seed: int, step: int) -> tuple[Ids, Ids]:
        """The rows of one step: input tokens, and the expected token after each, both (B, T).

        Unpredictable random tokens are ``UNSCORED``: they would only add noise to the gradient.
        """
        rng = np.random.default_rng([seed, step])
        text = self.text(phase.batch - phase.repeated_rows, phase.length + 1, phase.own, rng)
        spans, predictable = self.repeats(phase.repeated_rows, phase.length + 1, rng)
        expected = np.where(predictable, spans, UNSCORED)
        read = np.concatenate([text, spans])[:, :-1]
        return read, np.concatenate([text, expected])[:, 1:]
