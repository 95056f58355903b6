"""Rows of tokens to learn from: windows of text, and random spans that repeat.

Text can be predicted in many ways; a random span, said a second time, only by looking back to
where it was said first. Olsson et al. 2022, "In-context Learning and Induction Heads",
measure heads on such rows; here they also teach.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpt2viz.training.recipe import Phase

Ids = NDArray[np.int64]

SHORTEST_SPAN = 6
UNSCORED = -100
"""In place of an expected token: whatever the model says there counts neither way."""


class Stream:
    """All books' training tokens in a row (N,), with the places where a paragraph starts (P,)."""

    def __init__(self, ids: Ids, starts: Ids, vocab_size: int) -> None:
        self.ids, self.starts, self.vocab_size = ids, starts, vocab_size

    def windows(self, rows: int, length: int, rng: np.random.Generator) -> Ids:
        """Text of shape (rows, length): half the rows start a paragraph, half start anywhere.

        A typed sentence starts one, so the model has to know tokens such as "A" in first place.
        """
        last = len(self.ids) - length
        anywhere = rng.integers(0, last + 1, rows - rows // 2)
        starts = self.starts[: np.searchsorted(self.starts, last, side="right")]
        places = np.concatenate([anywhere, rng.choice(starts, rows // 2)])
        return self.ids[places[:, None] + np.arange(length)]

    def repeats(
        self, rows: int, length: int, rng: np.random.Generator
    ) -> tuple[Ids, NDArray[np.bool_]]:
        """Spans of random tokens, each said again and again until the row is full.

        A span has from 6 tokens to half the row, drawn for every row, so that no fixed distance
        leads back to the earlier occurrence. Shorter ones can be guessed without looking. Also
        returned is which tokens the ones before them tell: none of the first time, nor the one
        that the second begins with. Both (rows, length).
        """
        ids, told = np.empty((rows, length), np.int64), np.zeros((rows, length), bool)
        for row in range(rows):
            size = rng.integers(SHORTEST_SPAN, max(SHORTEST_SPAN, length // 2) + 1)
            ids[row] = np.resize(rng.integers(0, self.vocab_size, size), length)
            told[row, size + 1 :] = True
        return ids, told

    def batch(self, phase: Phase, seed: int, step: int) -> tuple[Ids, Ids]:
        """The rows of one step: the tokens that are read, and those expected after each, (B, T).

        Random tokens that nothing tells are ``UNSCORED``: no lesson is in them, and much noise.
        """
        rng = np.random.default_rng([seed, step])
        repeated = round(phase.batch * phase.repeated)
        text = self.windows(phase.batch - repeated, phase.length + 1, rng)
        spans, told = self.repeats(repeated, phase.length + 1, rng)
        expected = np.where(told, spans, UNSCORED)
        read = np.concatenate([text, spans])[:, :-1]
        return read, np.concatenate([text, expected])[:, 1:]
