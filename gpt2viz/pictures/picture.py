"""Pictures as values: the drawing and its words, without colours and without a renderer.

The canvas, ``app/scripts/chart.js`` and the view of lines draw them; text alternatives, tables and
files read the same values. A colour is a role here, whose shade the palette determines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpt2viz.extras import require
from gpt2viz.pictures.panel import Panel
from gpt2viz.run.stages import Scale

if TYPE_CHECKING:  # only a picture's table needs it
    import pandas as pd

#: Up to this many columns cells show their numbers, where pictures stand side by side.
NUMBERS_FIT = 6
#: The same for a large picture.
NUMBERS_FIT_LARGE = 12
#: The room for titles and names in the height of matrices on a page, in pixels.
AROUND = 60
#: The height of a row of a lens, in pixels.
LENS_ROW = 27

#: A field of the palette, or a number: the n-th of the cases that share the picture.
Role = Literal["ink", "accent", "second", "query", "key", "value", "nan"] | int


class Fixed:
    """A dataclass whose lists become tuples."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, _freeze(getattr(self, field.name)))


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if type(value) in (list, tuple) else value


@dataclass(frozen=True, eq=False)
class Series(Fixed):
    """The numbers of bars, edges, a curve or a point; ``x`` or ``y`` may be names."""

    name: str
    kind: Literal["bar", "edge", "curve", "point"]
    x: Sequence[object]
    y: Sequence[object]


@dataclass(frozen=True, eq=False)
class Picture(Fixed):
    """The base of every picture; ``what`` names it in one line: "Weights of layer 1, head 0".

    Its numbers are ``matrices``, ``series`` or both. Texts are plain, "\\n" ends a line.
    """

    what: str

    @property
    def matrices(self) -> tuple[Panel, ...]:
        """Every matrix that is drawn."""
        return ()

    @property
    def series(self) -> tuple[Series, ...]:
        """Every row of bars, kind of edge and curve that is drawn."""
        return ()

    def table(self) -> pd.DataFrame:
        """The numbers, one row each.

        For matrices: ``picture`` (its title), then row and column under their names ("query",
        "key"), ``value`` and, if cells are masked, ``hidden``: the legend's name for them, ""
        for the others. A masked cell's value is what the run had there; NaN is left out. For
        curves, bars and edges: ``series`` (its name, else the picture's ``what``), ``x``, ``y``. No
        rows if there are no numbers.
        """
        with require("A picture's table", "notebook"):
            import pandas as pd

        parts = [_cells(panel) for panel in self.matrices]
        parts += [
            pd.DataFrame({"series": part.name or self.what, "x": list(part.x), "y": list(part.y)})
            for part in self.series
        ]
        parts = [part for part in parts if len(part)]
        if not parts:
            return pd.DataFrame()
        rows = pd.concat(parts, ignore_index=True)
        if rows.get("hidden", pd.Series()).any():
            return rows
        return rows.drop(columns="hidden", errors="ignore")


def _cells(panel: Panel) -> pd.DataFrame:
    import pandas as pd

    n_rows, n_columns = panel.values.shape
    y, x = panel.rows.title or "row", panel.columns.title or "column"
    if x == y:  # heads by heads: still two columns
        x, y = f"{x} (column)", f"{y} (row)"
    rows, columns = (
        np.array(axis.plain_names(), dtype=object) for axis in (panel.rows, panel.columns)
    )
    return pd.DataFrame(
        {
            "picture": panel.whole_title,
            y: np.repeat(rows, n_columns),
            x: np.tile(columns, n_rows),
            "value": panel.values.ravel(),
            "hidden": np.where(panel.hidden.ravel(), panel.masked_name, ""),
        }
    ).dropna(subset="value")


@dataclass(frozen=True, eq=False)
class Heatmaps(Picture):
    """Matrices side by side on one shared scale.

    ``row`` and ``column`` are the positions of a query and a key that are framed in every panel,
    or only in that of the name ``framed_in``.
    Up to ``numbers`` columns cells show their values, with a ``plus`` sign if that is informative.
    ``bar`` is the title of the colour bar; empty leaves it out. ``legend`` names the colours that
    are not on the scale. ``frames`` are first and last cell, down and across, of framed groups;
    ``rules`` are lines after these rows (first) and columns (second). ``height`` is in pixels.
    ``ends`` says whether a page shows the names of rows and of columns at each matrix, or only at a
    neighbour; a file always shows them. ``grows`` gives the pixels of height per row, up to
    a maximum, if another part of the text needs another height.
    If ``ranged``, the ends of the scale are written above each matrix, in place of a bar.
    ``ranges`` are the ends of each matrix's own scale, if they don't share one.
    """

    panels: Sequence[Panel]
    scale: Scale = "unit"
    n_columns: int = 1
    height: int = 420
    row: int | None = None
    column: int | None = None
    framed_in: str = ""
    numbers: int = NUMBERS_FIT
    plus: bool = False
    bar: str = ""
    legend: bool = True
    frames: Sequence[tuple[tuple[int, int], tuple[int, int]]] = ()
    rules: tuple[Sequence[int], Sequence[int]] = ((), ())
    ends: tuple[bool, bool] = (True, True)
    grows: tuple[int, int] | None = None
    ranged: bool = False
    ranges: Sequence[tuple[float, float]] = ()

    @property
    def matrices(self) -> tuple[Panel, ...]:
        """The panels."""
        return tuple(self.panels)

    def lacks_numbers(self, panel: Panel) -> bool:
        """True for a map without a score, which shows its ``masked_text`` instead."""
        return bool(self.ranges) and bool(np.isnan(panel.values).all())

    def frame(self, panel: Panel) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """First and last cell, down and across, of a panel's frame: a row, a column or a cell.

        None if nothing is chosen, or it lies outside the part that is shown.
        """
        if (self.row is None and self.column is None) or self.framed_in not in ("", panel.name):
            return None
        ends = []
        for axis, chosen in ((panel.rows, self.row), (panel.columns, self.column)):
            row = None if chosen is None else axis.row_at(chosen)
            if chosen is not None and row is None:
                return None
            ends.append((0, len(axis.labels) - 1) if row is None else (row, row))
        return ends[0], ends[1]


@dataclass(frozen=True, eq=False)
class Case(Fixed):
    """Bars ``at`` some of a picture's names, one number each.

    ``written`` is the text at a bar's end, ``hover`` the pointer's. ``rest`` says that the last bar
    stands for many things together.
    """

    name: str
    at: Sequence[int]
    values: Sequence[float]
    role: Role
    written: Sequence[str]
    hover: Sequence[str]
    rest: bool = False


@dataclass(frozen=True, eq=False)
class Bars(Picture):
    """A number at each of the ``names``, of one case or of several side by side.

    ``ticks`` is the axis' text if that is less.
    ``quantity`` names the numbers. Bars are vertical, or lie ``across`` the page from the top down.
    """

    names: Sequence[str]
    cases: Sequence[Case]
    quantity: str
    across: bool = False
    ticks: Sequence[str] = ()

    @property
    def series(self) -> tuple[Series, ...]:
        """One row of bars per case: their names and numbers."""
        result = []
        for case in self.cases:
            ends = [self.names[n].replace("\n", " ") for n in case.at], list(case.values)
            result.append(Series(case.name, "bar", *(ends[::-1] if self.across else ends)))
        return tuple(result)


@dataclass(frozen=True, eq=False)
class Curve(Fixed):
    """Points (n,) that belong together; ``hover`` has the pointer's text for each.

    Curves differ by ``dash`` and, if points are marked, by ``point`` too.
    """

    name: str
    x: Sequence[object]
    y: Sequence[float]
    role: Role
    hover: Sequence[str]
    dash: str = "solid"
    point: str = ""


@dataclass(frozen=True, eq=False)
class Curves(Picture):
    """Curves over one axis of numbers or of names.

    ``x_title`` and ``y_title`` name the axes. ``lowest`` and ``highest`` are the ends of y; None
    fits them to the numbers.
    """

    curves: Sequence[Curve]
    x_title: str
    y_title: str
    height: int = 320
    log: bool = False
    lowest: float | None = None
    highest: float | None = None

    @property
    def series(self) -> tuple[Series, ...]:
        """The curves."""
        return tuple(Series(curve.name, "curve", curve.x, curve.y) for curve in self.curves)


@dataclass(frozen=True, eq=False)
class Points(Picture):
    """Named points in a plane, with both axes on the same scale.

    ``x`` and ``y`` (n,) are their coordinates; ``x_title`` and ``y_title`` name the axes. Points
    with an index in ``made`` are drawn as diamonds.
    """

    names: Sequence[str]
    x: Sequence[float]
    y: Sequence[float]
    x_title: str
    y_title: str
    made: Sequence[int] = ()
    height: int = 420

    @property
    def series(self) -> tuple[Series, ...]:
        """One series per point, under its name."""
        points = zip(self.names, self.x, self.y, strict=True)
        return tuple(Series(name, "point", [x], [y]) for name, x, y in points)


@dataclass(frozen=True, eq=False)
class Reading(Fixed):
    """One run's answer at every step of the stream: its rank, and the entropy."""

    name: str
    rank: Sequence[int]
    entropy: Sequence[float]
    roles: tuple[Role, Role]
    point: str


@dataclass(frozen=True, eq=False)
class Lens(Picture):
    """The stream read at every site: the most probable token, and curves on the same rows.

    ``panel`` holds the probabilities (sites, readings), with the tokens in its cells. ``column``
    is the position of the token that the curves belong to; its column is framed.
    """

    panel: Panel
    readings: Sequence[Reading]
    column: int | None = None

    @property
    def tokens(self) -> Heatmaps:
        """The matrix alone."""
        height = LENS_ROW * len(self.panel.values) + AROUND
        bar = self.panel.quantity
        return Heatmaps(self.what, [self.panel], height=height, column=self.column, bar=bar)

    @property
    def matrices(self) -> tuple[Panel, ...]:
        """The probabilities."""
        return (self.panel,)

    @property
    def series(self) -> tuple[Series, ...]:
        """Rank and entropy of each reading, down the rows."""
        steps = self.panel.rows.plain_names()
        return tuple(
            Series(": ".join(filter(None, [reading.name, what])), "curve", values, steps)
            for reading in self.readings
            for what, values in ((RANK, reading.rank), (ENTROPY, reading.entropy))
        )


#: The names of the curves beside a lens.
RANK, ENTROPY = "rank of the answer", "entropy (bits)"
