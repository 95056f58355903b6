"""What a name in the address can be: the kinds of values, and how they go along with tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpt2viz.analysis.patterns import moved_cells, parse_cells
from gpt2viz.analysis.steps import moved_steps, parse_steps
from gpt2viz.app.pages import Page
from gpt2viz.run.edits import moved, parse_edits

#: Text in the address, places that the sentence's tokens move by, all that the address holds ->
#: text for the tokens at their new places, "" where none is left. ``ValueError`` for what can't
#: be read.
Move = Callable[[str, int, Mapping[str, str]], str]


@dataclass(frozen=True, eq=False)
class Parameter:
    """A name in the address. Its classes say what can stand there.

    ``default`` holds where the address says nothing; None where that depends on the sentence or
    the model, or nothing is chosen at first. ``on`` are the pages that read it. ``moves`` is how
    it goes along with tokens that move. One that was chosen ``of`` others is forgotten when one
    of them changes.
    """

    name: str
    says: str
    default: Any = None
    on: tuple[Page, ...] = ()
    moves: Move | None = None
    of: tuple[Parameter, ...] = ()

    values: ClassVar[str] = ""


class Choice(Parameter):
    """One of a few values, or none."""

    values = "one of those offered"


class Switch(Parameter):
    """On or off."""

    values = "`true` or `false`"


class Text(Parameter):
    """Any text."""

    values = "any text"


class Several(Parameter):
    """Some of a few numbers."""

    values = "numbers with commas between, such as `0,2`"


class Listed(Parameter):
    """A list that no one widget holds, in a short form of its own."""

    values = "a list with commas between"


def move_place(raw: str, by: int, _all: Mapping[str, str]) -> str:
    """A token's place."""
    place = int(raw) + by
    return str(place) if place >= 0 else ""


def move_places(raw: str, by: int, _all: Mapping[str, str]) -> str:
    """Places with commas between."""
    return ",".join(str(int(n) + by) for n in raw.split(",") if int(n) + by >= 0)


def move_cells(raw: str, by: int, _all: Mapping[str, str]) -> str:
    """Cells: a query and a key each."""
    return ",".join(map(str, moved_cells(parse_cells(raw), by)))


def move_edits(raw: str, by: int, _all: Mapping[str, str]) -> str:
    """Edits, those that are about tokens."""
    return ",".join(map(str, moved(parse_edits(raw), by)))


def move_steps(raw: str, by: int, _all: Mapping[str, str]) -> str:
    """The heads on the way down, each with its cell."""
    return ",".join(map(str, moved_steps(parse_steps(raw), by)))


def move_part(raw: str, by: int, _all: Mapping[str, str]) -> str:
    """The ends of two ranges; of a token that is gone, what is left of them."""
    ends = [max(int(n) + by, 0) for n in raw.split(",")]
    return ",".join(map(str, ends)) if all(ends[1::2]) else ""


def move_token_of_pattern(raw: str, by: int, everything: Mapping[str, str]) -> str:
    """A column is a token's place; the other patterns' numbers count or measure."""
    return move_place(raw, by, everything) if everything.get("pattern") == "column" else raw
