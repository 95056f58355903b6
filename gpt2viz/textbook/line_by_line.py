"""The eighty lines with their gaps filled, each with the pair that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gpt2viz.textbook.gaps import Draft
from gpt2viz.textbook.line_pairs import PAIRS, Pair

#: What belongs in the gaps.
FILLED = {
    "embedding": "wte[ids] + wpe[:T]",
    "scores": "q @ k.mT",
    "scale": "scores / sqrt(hs)",
    "mask": "scaled.masked_fill(triu(ones(T, T), 1) == 1, -inf)",
    "softmax": "softmax(masked, dim=-1)",
    "merge": "heads.transpose(1, 2).reshape(B, T, C)",
    "residual": "x + made",
    "head": "x @ wte.mT",
}


class Listed(NamedTuple):
    """The eighty ``lines``; for each the pair that it belongs to, None for one that is empty."""

    lines: Sequence[str]
    pairs: Sequence[Pair | None]

    def first(self, pair: Pair) -> int:
        """The number, from 1, of the line that a pair begins with."""
        return self.pairs.index(pair) + 1


@lru_cache(maxsize=1)
def line_by_line() -> Listed:
    """The eighty lines with all gaps filled, and the pair of each.

    Raises ``LookupError`` where a pair begins with no line of them.
    """
    lines = Draft(FILLED).source().splitlines()
    pairs: list[Pair | None] = []
    begun = 0
    for line in lines:
        if begun < len(PAIRS) and line.strip().startswith(PAIRS[begun].begins):
            begun += 1
        pairs.append(PAIRS[begun - 1] if line.strip() else None)
    if begun < len(PAIRS):
        raise LookupError(f"no line begins with {PAIRS[begun].begins!r}")
    return Listed(lines, pairs)
