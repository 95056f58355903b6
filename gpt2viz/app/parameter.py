"""What a name in the address can be: the kinds of values, and how they go along with tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpt2viz.analysis.patterns import moved_cells, parse_cells
from gpt2viz.analysis.steps import moved_steps, parse_steps
from gpt2viz.app.pages import Page
from gpt2viz.run.edits import moved, parse_edits

#: Where a token of the sentence stands now, by its place before; None where it is gone.
To = Callable[[int], int | None]
#: Text in the address, where its tokens stand now, all that the address holds -> text for the
#: tokens at their new places, "" where none is left. ``ValueError`` for what can't be read.
Move = Callable[[str, To, Mapping[str, str]], str]


@dataclass(frozen=True, eq=False)
class Parameter:
    """A name in the address. Its classes say what can stand there.

    ``default`` holds where the address says nothing; None where that depends on the sentence or
    the model, or nothing is chosen at first. ``on`` are the pages that read it. ``moves`` is how
    it goes along with the sentence's tokens. One that was chosen ``of`` others is forgotten when
    one of them changes.
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


def move_place(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """A token's place."""
    place = to(int(raw))
    return "" if place is None else str(place)


def move_places(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """Places with commas between."""
    places = (to(int(n)) for n in raw.split(","))
    return ",".join(str(place) for place in places if place is not None)


def move_cells(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """Cells: a query and a key each."""
    return ",".join(map(str, moved_cells(parse_cells(raw), to)))


def move_edits(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """Edits, those that are about tokens."""
    return ",".join(map(str, moved(parse_edits(raw), to)))


def move_steps(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """The heads on the way down, each with its cell."""
    return ",".join(map(str, moved_steps(parse_steps(raw), to)))


def move_part(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """The ends of two ranges; of tokens that are gone, what is left of them."""
    ends = [int(n) for n in raw.split(",")]
    found: list[int] = []
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        left = [place for n in range(start, stop) if (place := to(n)) is not None]
        if not left:
            return ""
        found += [left[0], left[-1] + 1]
    return ",".join(map(str, found))


def move_token_of_pattern(raw: str, to: To, everything: Mapping[str, str]) -> str:
    """A column is a token's place; the other patterns' numbers count or measure."""
    return move_place(raw, to, everything) if everything.get("pattern") == "column" else raw
