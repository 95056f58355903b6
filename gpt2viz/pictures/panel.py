"""One matrix with the names of its rows and columns: the input of a heatmap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from gpt2viz.arrays import Array, Pairs
from gpt2viz.labels import markup_safe, shorten
from gpt2viz.run.key import RunKey

#: An axis of up to this many labels shows them without their positions.
FEW = 8


@dataclass(frozen=True)
class Axis:
    """Names along one side: one label per row or column, and a title for them ("query", "key").

    ``positions`` are the tokens' positions in the text if only some of them have a row, and
    ``stop`` is the first position past the last row, if the text continues there. Labels that are
    not ``numbered`` are already distinct.
    """

    title: str
    labels: Sequence[str]
    positions: Sequence[int] | None = None
    stop: int | None = None
    numbered: bool = True

    def __deepcopy__(self, _memo: dict[int, object]) -> Axis:
        """Return itself: a copy of a panel for its numbers can share its names."""
        return self

    def names(self) -> list[str]:
        """The labels, made distinct by position: Plotly silently merges equal ones."""
        return [markup_safe(name) for name in self.plain_names()]

    def plain_names(self) -> list[str]:
        """The names for pictures that don't interpret markup."""
        return self._numbered(self.short())

    def full_names(self) -> list[str]:
        """The names for tables, which have room for long ones."""
        return self._numbered(self.labels)

    def _numbered(self, texts: Sequence[str]) -> list[str]:
        if not self.numbered:
            return list(texts)
        numbered = zip(self.positions or range(len(texts)), texts, strict=True)
        return [text if text == str(n) else f"{n} {text}" for n, text in numbered]

    def longest(self) -> str:
        """The longest of the axis' names, as plain text."""
        return max(self.plain_ends(), key=len)

    def plain_ends(self) -> list[str]:
        """The names at the axis, as plain text: on a short side without position."""
        return self.plain_names() if len(self.labels) > FEW else self.short()

    def row_at(self, position: int) -> int | None:
        """The row or column of the token at a position of the text, if there is one."""
        positions = self.positions or range(len(self.labels))
        if position < positions[0] or (self.stop is not None and position >= self.stop):
            return None
        return bisect_right(positions, position) - 1

    def rows_within(self, window: range) -> range:
        """The rows of the tokens at these positions; whole words and blocks are kept whole."""
        positions = self.positions or range(len(self.labels))
        first = max(0, bisect_right(positions, window.start) - 1)
        return range(first, max(first + 1, bisect_left(positions, window.stop)))

    def part(self, rows: Sequence[int], stop: int | None) -> Axis:
        """Some of the rows, each standing for all up to the next one or ``stop``."""
        positions = [self.position(n) for n in rows]
        labels = [self.labels[n] for n in rows]
        return Axis(self.title, labels, positions, stop, self.numbered)

    def position(self, row: int) -> int:
        """The position in the text of the token that a row or column begins with."""
        return row if self.positions is None else self.positions[row]

    def ticks(self) -> dict[str, list[str] | list[int]]:
        """Every label on a short side; on a longer one Plotly picks names that fit."""
        if len(self.labels) > FEW:
            return {}
        texts = [markup_safe(text) for text in self.short()]
        return {"tickvals": list(range(len(texts))), "ticktext": texts}

    def short(self) -> list[str]:
        """The labels; long ones that are ``numbered``, as tokens are, without their middle."""
        return [shorten(text) for text in self.labels] if self.numbered else list(self.labels)


class Viewport(NamedTuple):
    """The tokens that a part of a matrix shows; every column if ``keys`` is None."""

    queries: range
    keys: range | None

    def __str__(self) -> str:
        if self.keys is None:
            return f"tokens {_span(self.queries)}"
        return f"queries {_span(self.queries)}, keys {_span(self.keys)}"

    def short(self) -> str:
        """A shorter form for little room, rows first as everywhere."""
        spans = (f"{span[0]}–{span[-1]}" for span in (self.queries, self.keys) if span)
        return " × ".join(spans)


def _span(tokens: range) -> str:
    return f"{tokens[0]} to {tokens[-1]}" if len(tokens) > 1 else str(tokens[0])


class HeadOfRun(NamedTuple):
    """A head of one run."""

    run: RunKey
    layer: int
    head: int


@dataclass(frozen=True)
class Panel:
    """One matrix (rows, columns) to draw.

    ``title`` names exactly what is drawn. ``masked`` marks the cells that the mask hides;
    ``masked_text`` says what they hold, ``masked_name`` is their name in the legend. ``name``
    is sent with a click on a cell; ``quantity`` says what one number is. The scale of signed
    numbers reaches at least to ``least``, so that rounding doesn't look large.
    ``part`` says which tokens are shown if not all are, below the title. Cells with ``words``
    (rows, columns) show these in place of their number, and ``hover`` has the pointer's text for
    each. ``head`` is the head whose weights the cells are, if each is one query and one key.
    ``blocks`` says that a cell stands for several of the run's. ``whole`` is the panel that this is
    a part of; pickling drops it.
    """

    title: str
    values: Array
    rows: Axis
    columns: Axis
    name: str = ""
    quantity: str = "attention weight"
    masked: Pairs | None = None
    masked_text: str = "masked"
    masked_name: str = "masked"
    least: float = 0.0
    part: Viewport | None = None
    words: Sequence[Sequence[str]] = ()
    hover: Sequence[Sequence[str]] = ()
    head: HeadOfRun | None = None
    blocks: bool = False
    whole: Panel | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle: all but the ``whole``."""
        return vars(self) | {"whole": None}

    def cells(self, index: Any, rows: Axis, columns: Axis) -> Panel:
        """Some of its cells, under the names of their rows and columns."""
        masked = None if self.masked is None else self.masked[index]
        return replace(self, values=self.values[index], masked=masked, rows=rows, columns=columns)

    @property
    def hidden(self) -> Pairs:
        """The cells that the mask hides, none without a mask: (rows, columns)."""
        return np.zeros(self.values.shape, bool) if self.masked is None else self.masked

    @property
    def of_pairs(self) -> bool:
        """True if rows and columns are of one kind, so that cells are square."""
        down, across = self.rows.title, self.columns.title
        return bool(down) and across in (down, "key")

    @property
    def whole_title(self) -> str:
        """The title with the part that is shown, or the name if there is neither."""
        part = "" if self.part is None else str(self.part)
        return " ".join(filter(None, [self.title, part])) or self.name

    def label(self, what: str) -> str:
        """Name the picture, with the part of it that is shown."""
        return what if self.part is None else f"{what}, {self.part}"
