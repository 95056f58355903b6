"""Cells of heads' weights in a short form, for the address: a way from one head to another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple


class Step(NamedTuple):
    """A cell of a head's weights: where it looks from a token. Written "1.4:8:2"."""

    layer: int
    head: int
    query: int
    key: int

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}:{self.query}:{self.key}"


def parse_steps(text: str) -> tuple[Step, ...]:
    """Read "1.4:8:2,0.0:2:1". Raises ``ValueError`` for what is none."""
    if not re.fullmatch(r"\d+\.\d+:\d+:\d+(,\d+\.\d+:\d+:\d+)*", text, re.ASCII):
        raise ValueError(text)
    return tuple(Step(*map(int, re.split("[.:]", part))) for part in text.split(","))


def moved_steps(steps: Iterable[Step], by: int) -> tuple[Step, ...]:
    """The way for a text whose tokens stand ``by`` places later, or earlier where it is below 0.

    It ends before the first cell whose token is gone.
    """
    moved = (step._replace(query=step.query + by, key=step.key + by) for step in steps)
    return tuple(takewhile(lambda step: min(step.query, step.key) >= 0, moved))
