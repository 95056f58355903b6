"""Printed results of the texts, compared with the same results as computed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_UNITS = {"K": 3, "M": 6, "B": 9, "%": -2}


class Text(NamedTuple):
    """A source: its title and author, "" if it names none, and the work that it is based on."""

    title: str
    author: str = ""
    after: str = ""


#: The texts, by the number that the examples give them; no reader sees the numbers.
TEXTS = {
    0: Text("Understanding Transformers with GPT-2 Code"),
    1: Text("GPT Open Source: Deep Dive Tutorial, chapter 2, Transformer Architecture"),
    2: Text(
        "Research Reference for LLM Implementation (2025)",
        "P. Burume",
        "S. Raschka, Build a Large Language Model (From Scratch) (2024), chapter 3",
    ),
    3: Text(
        "A visual deep dive into the Transformer's architecture: turning Karpathy's masterclass "
        "into pictures",
        "F. Pochetti",
        "A. Karpathy's lecture Let's build GPT: from scratch, in code, spelled out (2023)",
    ),
    4: Text("Give me 90 minutes, I will make Transformer click forever"),
}


@dataclass(frozen=True, eq=False)
class Claim:
    """One result. ``printed`` is as in the text, "" if no text prints it.

    Numbers are printed with spaces between, such as "0.98 0.70", and may have commas, a leading
    ``~`` or one of the units K, M, B and %. ``computed`` are as many numbers in any shape, or a
    text. ``why`` is the reason for a difference, if known.
    """

    what: str
    printed: str
    computed: ArrayLike
    why: str = ""

    @property
    def verdict(self) -> str:
        """ "agrees", "differs", or "" if nothing is printed.

        A number agrees when it lies within half a unit of the last printed digit.
        """
        if not self.printed:
            return ""
        if isinstance(self.computed, str):
            return "agrees" if self.printed == self.computed else "differs"
        read = [_parse_printed(word) for word in self.printed.split()]
        pairs = zip(read, np.ravel(self.computed), strict=True)
        near = (abs(Decimal(float(x)) - value) <= unit / 2 for (value, unit), x in pairs)
        return "agrees" if all(near) else "differs"

    @property
    def written(self) -> str:
        """The computed result, with four decimals or as a whole number."""
        if isinstance(self.computed, str):
            return self.computed
        return "  ".join(_write(float(x)) for x in np.ravel(self.computed))


@dataclass(frozen=True)
class Example:
    """One worked example: ``id`` such as "E5", the numbers of its ``texts``, and its claims.

    ``claims`` computes everything from the texts' own inputs.
    """

    id: str
    title: str
    texts: tuple[int, ...]
    claims: Callable[[], list[Claim]]


def shape(tensor: object) -> str:
    """A tensor's shape as the texts write it: "(1, 4, 2)"."""
    return str(tuple(tensor.shape))  # type: ignore[attr-defined]


def _parse_printed(word: str) -> tuple[Decimal, Decimal]:
    """(value, unit of the last printed digit)."""
    plain = word.lstrip("~").replace(",", "")
    power = _UNITS.get(plain[-1], 0)
    value = Decimal(plain[:-1] if plain[-1] in _UNITS else plain)
    unit = Decimal(1).scaleb(int(value.as_tuple().exponent))
    return value.scaleb(power), unit.scaleb(power)


def _write(x: float) -> str:
    return f"{x:,.0f}" if x == round(x) else f"{x:,.4f}"
