"""A figure laid out anew for a width on paper: letters that can be read, and nothing left blank."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from gpt2viz.errors import ExportError

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Pixels an inch, as Plotly and browsers draw.
PLOTLY_DPI = 96
#: Where a figure says no size of its own: seven and a half inches, the width of a page's text.
WIDTH, HEIGHT = 720, 450
#: No letter on paper is smaller: 6 points, in pixels.
LEAST = 6 * PLOTLY_DPI / 72

_INCHES = {"cm": 1 / 2.54, "mm": 1 / 25.4, "in": 1.0, "pt": 1 / 72, "px": 1 / PLOTLY_DPI}
_LENGTH = re.compile(rf"\s*(\d+(?:\.\d*)?|\.\d+)\s*({'|'.join(_INCHES)})\s*")
#: A metre; and what a matrix takes at least beside its names.
_WIDEST, _ACROSS = 3780, 60
#: Plotly's own sizes, for what a figure leaves open, and the smallest that ours have.
_FONT, _SMALLEST = 12, 11
_MARGIN = {"l": 80, "r": 80, "t": 100, "b": 80}
#: Of a letter's height: what it takes across, and a line down.
LETTER, LINE = 0.56, 1.3


def pixels(length: float | str) -> int:
    """A length in Plotly's pixels, 96 to the inch: "8.5cm", "85mm", "3.35in", "241pt" or "321px".

    A number is in pixels already. Raises ``ExportError`` for what is no length, and for none or
    more than a metre.
    """
    found = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    if isinstance(length, str) and not found:
        raise ExportError(f"{length!r} isn't a width: write 8.5cm, 85mm, 3.35in, 241pt or 321px.")
    wanted = float(found[1]) * _INCHES[found[2]] * PLOTLY_DPI if found else float(length)
    if not 1 <= wanted <= _WIDEST:
        raise ExportError(f"A picture can't be {length} wide: a metre is the most.")
    return round(wanted)


def shrunk(figure: go.Figure, width: int) -> float:
    """How much smaller letters and margins become where a figure is drawn ``width`` pixels wide.

    As much as the figure, but no letter smaller than ``LEAST``; on wider paper they stay.
    """
    return min(1.0, max(width / (figure.layout.width or WIDTH), LEAST / _SMALLEST))


def fitted(figure: go.Figure, width: int) -> go.Figure:
    """A copy of a figure that is ``width`` pixels wide, and as high as its matrices then are.

    Not the same picture made smaller: letters keep a size that can be read, names and colour bar
    the room that they need, and the matrices get the rest. Numbers in cells that are too small
    for them are left out. Raises ``ExportError`` where nothing would be left for the matrices.
    """
    import plotly.graph_objects as go

    ratio = shrunk(figure, width)
    made = go.Figure(figure)
    made.layout = _smaller(figure.layout.to_plotly_json(), ratio)
    layout = made.layout
    for trace in made.data:
        told = trace.to_plotly_json()
        trace.update(
            {k: _smaller(told[k], ratio, k) for k in ("textfont", "colorbar") if k in told}
        )
    layout.font.size = max(LEAST, (figure.layout.font.size or _FONT) * ratio)
    room = _room(made)
    across = width - room["l"] - room["r"]
    if across < _ACROSS:
        least = (width - across + _ACROSS) / PLOTLY_DPI * 2.54
        raise ExportError(f"Names and colour bar need a picture at least {least:.1f} cm wide.")
    added = _wrap_titles(made, width, room["l"], across)
    before = _room(figure)
    old = (
        (figure.layout.width or WIDTH) - before["l"] - before["r"],
        (figure.layout.height or HEIGHT) - before["t"] - before["b"],
    )
    down = _down(made, across, old, ratio)
    _numbers(made, across)
    if layout.coloraxis.colorbar.lenmode == "pixels":
        layout.coloraxis.colorbar.len = min(layout.coloraxis.colorbar.len, down)
    made.update_layout(width=width, height=round(down + room["t"] + room["b"] + added))
    return made


def _smaller(part: Any, ratio: float, name: str = "") -> Any:
    """A part of a figure with all that is in pixels made smaller, letters not below ``LEAST``."""
    if isinstance(part, list | tuple):
        return [_smaller(one, ratio, name) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: _smaller(value, ratio, key) for key, value in part.items()}
    lengths = {"margin": "lrtb", "colorbar": ("thickness", "xpad", "len")}.get(name, ())
    if name.endswith("font"):
        lengths = ("size",)
    # Plotly keeps an axis' title 10 pixels from its names, however small these are.
    kept = {"l": 10 * (1 - ratio), "b": 10 * (1 - ratio)}
    for key in lengths:
        in_pixels = key != "len" or found.get("lenmode") == "pixels"
        if in_pixels and isinstance(found.get(key), int | float):
            made = found[key] * ratio + kept.get(key, 0)
            found[key] = max(made, LEAST) if key == "size" else made
    return found


def _room(figure: go.Figure) -> dict[str, float]:
    """Pixels between the edges of a figure and its matrices: its margins, or what Plotly makes."""
    margin = figure.layout.margin
    room = {side: _MARGIN[side] if margin[side] is None else margin[side] for side in "lrtb"}
    if margin.autoexpand is False:
        return room
    size = figure.layout.font.size or _FONT
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        across = axis.plotly_name.startswith("x")
        side = {"top": "t", "right": "r"}.get(axis.side, "b" if across else "l")
        longest = max((len(str(text)) for text in axis.ticktext or ()), default=4)
        names = LINE * size if across else LETTER * size * longest
        title = 2 * (axis.title.font.size or size) if axis.title.text else 0
        room[side] = max(room[side], names + title + size / 2)
    return room


def _wrap_titles(figure: go.Figure, width: int, left: float, across: float) -> float:
    """Break titles that are wider than their place; the pixels that the upper margin grows by."""
    lines = 1
    size: float = figure.layout.font.size
    for note in figure.layout.annotations:
        if note.xref != "paper" or note.yanchor != "bottom":
            continue
        size = note.font.size or figure.layout.font.size
        middle = left + note.x * across
        columns = len({one.x for one in figure.layout.annotations if one.yanchor == "bottom"})
        room = min(2 * middle, 2 * (width - middle), 1.15 * width / max(1, columns))
        letters = max(8, int(room / (LETTER * size)))
        broken = textwrap.wrap(note.text, letters, break_long_words=False) or [note.text]
        note.text = "<br>".join(broken)
        lines = max(lines, len(broken))
    added = LINE * size * (lines - 1)
    if figure.layout.margin.autoexpand is False:
        figure.layout.margin.t += added
    return added


def _down(figure: go.Figure, across: float, old: tuple[float, float], ratio: float) -> float:
    """Pixels that the matrices take down the page: square cells as many as there are.

    Others keep the shape of ``old`` (across, down), but need room for the names of their rows.
    """
    squares: list[float] = []
    rows = 0
    for trace in figure.data:
        if trace.type != "heatmap":
            continue
        x, y = (_axis(figure, letter, trace) for letter in "xy")
        n_rows, n_columns = np.shape(trace.z)
        (left, right), (low, high) = x.domain or (0, 1), y.domain or (0, 1)
        if x.scaleanchor or y.scaleanchor:
            squares.append(across * (right - left) * n_rows / n_columns / (high - low))
        rows = max(rows, round(n_rows / (high - low)))
    if squares:
        return max(squares)
    if not rows:
        return old[1] * ratio
    named: float = rows * LINE * figure.layout.font.size
    return max(old[1] * across / old[0], min(old[1] * ratio, named))


def _numbers(figure: go.Figure, across: float) -> None:
    """Write numbers into cells as large as fits, or not at all where ``LEAST`` doesn't.

    The signs of masked cells stand beside numbers, and go where those go.
    """
    written = [t for t in figure.data if t.type == "heatmap" and t.texttemplate]
    for trace in [t for t in written if "%{z" in t.texttemplate]:
        left, right = _axis(figure, "x", trace).domain or (0, 1)
        cell = across * (right - left) / np.shape(trace.z)[1]
        size = min(figure.layout.font.size, cell / (LETTER * (_digits(trace) + 1)))
        for one in [t for t in written if t.xaxis == trace.xaxis]:
            if size >= LEAST:
                one.textfont.size = size
            else:
                one.update(texttemplate=None, text=None, xgap=0, ygap=0)


def _digits(trace: go.Heatmap) -> int:
    """Characters of the longest number that stands in a matrix's cells."""
    finite = np.asarray(trace.z)[np.isfinite(trace.z)]
    places = re.search(r"\.(\d+)f", trace.texttemplate)
    ends = (finite.min(), finite.max()) if finite.size else (0.0,)
    return max(len(f"{end:.{places[1] if places else 0}f}") for end in ends)


def _axis(figure: go.Figure, letter: str, trace: go.Heatmap) -> Any:
    own = getattr(trace, f"{letter}axis") or letter
    return figure.layout[f"{letter}axis{own.removeprefix(letter)}"]
