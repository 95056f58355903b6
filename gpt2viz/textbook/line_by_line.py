"""The eighty lines with their gaps filled, and the equivalent lines of ``network.py``."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from gpt2viz.model import network
from gpt2viz.textbook.gaps import BOOK, FILLED, Draft


class Pair(NamedTuple):
    """One or more of the eighty lines: the start of the first (``begins``), and what it ``does``.

    It ends where the next begins. The equivalent lines of ``network.py`` are ``beside`` it: each is
    "Attend.forward: scores =", a part that only one line there has. ``makes`` are the stages that
    the line computes, ``towards`` those that it contributes to; ``sizes`` the axes whose sizes it
    reads, and ``axes`` those of a tensor that isn't a stage.
    """

    begins: str
    does: str
    beside: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    towards: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()

    @property
    def lines_beside(self) -> list[int]:
        """Their numbers in ``network.py``, from 1.

        Raises ``LookupError`` if a part is in no line, or in more than one.
        """
        return sorted(map(_line_of, self.beside))


@lru_cache(maxsize=128)
def _line_of(part: str) -> int:
    """The number of the line of ``network.py`` that has a part, such as "Attend.forward: hs ="."""
    owner, _, text = part.partition(": ")
    source, first = inspect.getsourcelines(attrgetter(owner)(network))
    matches = [first + n for n, line in enumerate(source) if text in line]
    if len(matches) != 1:
        raise LookupError(f"{text!r} is in {len(matches)} lines of {owner}")
    return matches[0]


_WRITTEN: list[dict[str, Any]] = [
    {name: tuple(x) if isinstance(x, list) else x for name, x in pair.items()}
    for pair in tomllib.loads((BOOK / "lines.toml").read_text("utf-8"))["pair"]
]
PAIRS = tuple(Pair(**pair) for pair in _WRITTEN)


class Listed(NamedTuple):
    """The eighty ``lines``, and for each the pair that it belongs to, None for an empty line."""

    lines: Sequence[str]
    pairs: Sequence[Pair | None]

    def line_number(self, pair: Pair) -> int:
        """The number, from 1, of a pair's first line."""
        return self.pairs.index(pair) + 1


@lru_cache(maxsize=1)
def line_by_line() -> Listed:
    """The eighty lines with all gaps filled, and the pair of each.

    Raises ``LookupError`` if a pair matches none of them.
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
