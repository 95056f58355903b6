"""A matrix as lines from each query to the keys it attends to, the thinnest left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array
from gpt2viz.extras import require
from gpt2viz.pictures.palette import DASHES
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Picture

if TYPE_CHECKING:  # a notebook draws lines without it
    import pandas as pd

#: The most tokens that can be distinguished on one side of the picture.
MOST_TOKENS = 256
#: The most matrices that can be distinguished, each by a colour and a dash of its own.
MOST_SOURCES = 4
#: The most lines that are drawn while no token is pointed at …
AT_REST = 300
#: … and the most lines for the tokens pointed at.
MOST_LINES = 20_000

#: The explanation of how lines respond to the pointer.
HINT = (
    "Point at a token on the left to see where it looks, on the right to see who looks at it. "
    "By keyboard: Tab, then the arrow keys."
)

#: Candidates for the thinnest line, as a share of the scale's top: the first with few enough lines.
THRESHOLDS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

#: The same, and the sources' dashes, for the script that makes the lines.
FOR_SCRIPT = {
    "thresholds": THRESHOLDS,
    "most": {"lines": MOST_LINES, "atRest": AT_REST},
    "dashes": [*DASHES.values()],
}


@dataclass(frozen=True, eq=False)
class Source:
    """The lines of one matrix: ``weights[n]`` goes from row ``queries[n]`` to ``keys[n]``."""

    name: str
    queries: NDArray[np.intp]
    keys: NDArray[np.intp]
    weights: Array


@dataclass(frozen=True, eq=False)
class Lines(Picture):
    """Lines of up to four matrices over the same tokens.

    ``panels`` are the matrices, ``sources`` the lines that are drawn. ``peak`` is the number of the
    widest possible line, ``threshold`` the smallest that is still a line, ``at_rest`` the smallest
    that is drawn while no token is pointed at, and ``lost`` the share of the total left out.
    ``ends`` are the titles of both sides.
    """

    panels: Sequence[Panel]
    sources: tuple[Source, ...]
    peak: float
    threshold: float
    at_rest: float
    lost: float
    ends: tuple[str, str] = ("query: who looks", "key: what it looks at")

    @property
    def matrices(self) -> tuple[Panel, ...]:
        """The matrices, also of the lines that are left out."""
        return tuple(self.panels)

    @property
    def rows(self) -> Axis:
        """The queries."""
        return self.panels[0].rows

    @property
    def columns(self) -> Axis:
        """The keys."""
        return self.panels[0].columns

    @property
    def quantity(self) -> str:
        """The quantity that a line's width shows."""
        return self.panels[0].quantity

    def table(self) -> pd.DataFrame:
        """One row per line: its matrix, its query, its key, and its number."""
        with require("A picture's table", "notebook"):
            import pandas as pd

        ends = self.rows.full_names(), self.columns.full_names()
        drawn = (
            (source.name, ends[0][query], ends[1][key], weight)
            for source in self.sources
            for query, key, weight in zip(source.queries, source.keys, source.weights, strict=True)
        )
        columns = ["picture", self.rows.title, self.columns.title, "value"]
        return pd.DataFrame(drawn, columns=columns)


def lines(what: str, panels: Sequence[Panel], names: Sequence[str], unit: bool = True) -> Lines:
    """Lines of at most ``MOST_SOURCES`` matrices of at most ``MOST_TOKENS`` rows and columns.

    ``names`` distinguish them. On a ``unit`` scale the widest line is 1, else the largest
    number. Masked cells are no lines. Raises ``ValueError`` for more matrices or tokens.
    """
    shape = panels[0].values.shape
    if len(panels) > MOST_SOURCES or max(shape) > MOST_TOKENS:
        raise ValueError(f"{len(panels)} matrices of {shape}: at most 4 of 256 tokens")
    numbers = np.stack([_drawable(panel) for panel in panels])
    peak = 1.0 if unit else float(numbers.max(initial=0.0)) or 1.0
    threshold = _threshold(numbers, peak, MOST_LINES)
    drawn = numbers >= threshold
    total = float(numbers.sum(dtype=np.float64))
    return Lines(
        what,
        panels=tuple(panels),
        sources=tuple(
            Source(name, np.nonzero(here)[0], np.nonzero(here)[1], sums[here])
            for name, sums, here in zip(names, numbers, drawn, strict=True)
        ),
        peak=peak,
        threshold=threshold,
        at_rest=_threshold(numbers, peak, AT_REST),
        lost=float(numbers[~drawn].sum(dtype=np.float64)) / total if total else 0.0,
    )


def _drawable(panel: Panel) -> Array:
    """The panel's numbers, 0 where there is none to draw."""
    return np.where(panel.hidden | ~np.isfinite(panel.values), np.float32(0), panel.values)


def _threshold(numbers: Array, peak: float, most: int) -> float:
    at_most = [share * peak for share in THRESHOLDS if (numbers >= share * peak).sum() <= most]
    return at_most[0] if at_most else peak
