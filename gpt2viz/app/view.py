"""A page's run, and the window of its text that its pictures show."""

from __future__ import annotations

from dataclasses import dataclass

from gpt2viz import Model, Trace
from gpt2viz.app import address, output, parameters
from gpt2viz.app.clicks import Drag, Dragged
from gpt2viz.app.literal import literal
from gpt2viz.pictures.canvas import Shown
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.pooling import GRID, crop, pool_panel


@dataclass(frozen=True)
class View:
    """A page's run and its chosen query."""

    model: Model
    trace: Trace
    query: int | None

    @property
    def colors(self) -> Palette:
        """The page's colours."""
        return output.page_outputs().colors

    @property
    def labels(self) -> tuple[str, ...]:
        """The tokens as they are written on screen."""
        return self.trace.labels

    @property
    def n_tokens(self) -> int:
        """T, the number of tokens."""
        return len(self.labels)

    @property
    def position(self) -> int:
        """The position of the chosen query, or else of the last token."""
        return self.n_tokens - 1 if self.query is None else self.query

    def token_name(self, position: int) -> str:
        """Return a token's name for sentences, with its position: Markdown."""
        return f"“{literal(self.labels[position])}” ({position})"


@dataclass(frozen=True)
class Window:
    """The queries and keys that are shown, as positions in a text of ``n_tokens``."""

    queries: range
    keys: range
    n_tokens: int

    @property
    def whole(self) -> bool:
        """True if the text is shown from end to end."""
        return len(self.queries) == len(self.keys) == self.n_tokens

    def fit(self, panel: Panel, size: int = GRID) -> Panel:
        """Crop a panel to this window, and pool it to at most ``size`` cells a side."""
        if not self.whole:
            panel = crop(panel, self.queries, self.keys if panel.columns.title == "key" else None)
        return pool_panel(panel, size)

    @property
    def exact(self) -> bool:
        """True if a large picture shows the window without pooling."""
        return max(len(self.queries), len(self.keys)) <= GRID

    @property
    def ends(self) -> tuple[int, ...]:
        """First and stop query, first and stop key, as in the address; () for the whole text."""
        ends = self.queries.start, self.queries.stop, self.keys.start, self.keys.stop
        return () if self.whole else ends

    @property
    def shown(self) -> Shown | None:
        """The window for the browser to draw other parts; None if it lacks some of the numbers."""
        return Shown(self.ends, self.n_tokens) if self.n_tokens <= GRID else None

    def drag(self, panel: Panel) -> Drag:
        """Return the response to a drag over a picture with the axes of ``panel``."""
        rows, columns = panel.rows, panel.columns  # the callback needn't hold the numbers

        def choose(dragged: Dragged) -> None:
            queries = _positions(rows, dragged.rows, self.queries.stop)
            keys = _positions(columns, dragged.columns, self.keys.stop)
            if queries[0] < queries[1] and keys[0] < keys[1]:  # else it is within one cell
                address.put(parameters.ZOOM, (*queries, *keys))

        return Drag(choose, self.shown)


def _positions(axis: Axis, cells: tuple[int, int], end: int) -> tuple[int, int]:
    """Convert the first and last cell of an axis to a first and a stop position in the text."""
    first, last = (min(max(cell, 0), len(axis.labels) - 1) for cell in cells)
    stop = axis.position(last + 1) if last + 1 < len(axis.labels) else end
    return axis.position(first), stop


def whole_text(n_tokens: int) -> Window:
    """Return the window of a whole text."""
    return Window(range(n_tokens), range(n_tokens), n_tokens)
