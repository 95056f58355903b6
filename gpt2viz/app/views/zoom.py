"""Dragging over a picture shows a part of the text, on all pictures; a long text is drawn small."""

from __future__ import annotations

from dataclasses import dataclass

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.clicks import Drag, Dragged
from gpt2viz.app.components import part_note
from gpt2viz.app.frame.page import View
from gpt2viz.pictures.canvas import Shown
from gpt2viz.pictures.measure import GRID
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.pooling import crop, pool_panel


@dataclass(frozen=True)
class Window:
    """The queries and keys that are shown, as positions in a text of ``n_tokens``."""

    queries: range
    keys: range
    n_tokens: int

    @property
    def whole(self) -> bool:
        """True where the text is shown from end to end."""
        return len(self.queries) == len(self.keys) == self.n_tokens

    def fit(self, panel: Panel, size: int = GRID) -> Panel:
        """The panel's part in this window, shrunk where it has more than ``size`` cells a side."""
        if not self.whole:
            panel = crop(panel, self.queries, self.keys if panel.columns.title == "key" else None)
        return pool_panel(panel, size)

    @property
    def exact(self) -> bool:
        """True where each cell of the model is a cell of a large picture."""
        return max(len(self.queries), len(self.keys)) <= GRID

    @property
    def ends(self) -> tuple[int, ...]:
        """First and stop query, first and stop key, as the address has them; () for all."""
        ends = self.queries.start, self.queries.stop, self.keys.start, self.keys.stop
        return () if self.whole else ends

    @property
    def shown(self) -> Shown | None:
        """What a browser can show another part by; None where it hasn't got all the numbers."""
        return Shown(self.ends, self.n_tokens) if self.n_tokens <= GRID else None

    def drag(self, panel: Panel) -> Drag:
        """What to do where a part of a picture with the axes of ``panel`` is dragged out."""
        rows, columns = panel.rows, panel.columns  # without the numbers, which need not stay

        def choose(dragged: Dragged) -> None:
            queries = _places(rows, dragged.rows, self.queries.stop)
            keys = _places(columns, dragged.columns, self.keys.stop)
            if queries[0] < queries[1] and keys[0] < keys[1]:  # else it is within one cell
                address.put(parameters.ZOOM, (*queries, *keys))

        return Drag(choose, self.shown)


def _places(axis: Axis, cells: tuple[int, int], end: int) -> tuple[int, int]:
    """From the first to the last cell of an axis to positions in the text, the end left out."""
    first, last = (min(max(cell, 0), len(axis.labels) - 1) for cell in cells)
    stop = axis.position(last + 1) if last + 1 < len(axis.labels) else end
    return axis.position(first), stop


def whole_text(n_tokens: int) -> Window:
    """All of a text."""
    return Window(range(n_tokens), range(n_tokens), n_tokens)


def window(view: View) -> Window:
    """The part that the address asks for, with a line about it above the pictures."""
    part = whole_or_part(view)
    note(view, part)
    return part


def whole_or_part(view: View) -> Window:
    """The part that the address asks for."""
    T, expected = view.n_tokens, "first and last query, first and last key"
    ends = address.several_values(parameters.ZOOM, _parse, expected)
    if not ends or max(ends) > T:
        return whole_text(T)
    return Window(range(*ends[:2]), range(*ends[2:]), T)


def note(view: View, part: Window) -> None:
    """A line about the part that is shown, with the way back to all of it."""
    T = view.n_tokens
    if part.whole and T > GRID:
        prose.caption(
            f"{T:,} tokens are more than a picture has room for: each point is the number "
            "farthest from 0 in its block. **Drag over a picture** to see that part cell by cell."
        )
    part_note.draw(Shown(part.ends, T), here=part.shown is not None, back=back)


def back() -> None:
    """Show the whole text. For callbacks."""
    address.put(parameters.ZOOM, ())


def _parse(raw: str) -> tuple[int, ...]:
    first, stop, first_key, stop_key = map(int, raw.split(","))
    if not (0 <= first < stop and 0 <= first_key < stop_key):
        raise ValueError(raw)
    return first, stop, first_key, stop_key
