"""Cells of heads' weights in a short form, for the address: a way from one head to another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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


def moved_steps(steps: Iterable[Step], to: Callable[[int], int | None]) -> tuple[Step, ...]:
    """The way for a text whose tokens stand elsewhere: ``to`` says where, None for gone.

    It ends before the first cell whose token is gone.
    """
    found: list[Step] = []
    for step in steps:
        query, key = to(step.query), to(step.key)
        if query is None or key is None:
            break
        found.append(step._replace(query=query, key=key))
    return tuple(found)
