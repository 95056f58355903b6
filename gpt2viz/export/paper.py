"""A picture for paper: in the colours of a light page, with a caption that says what it shows."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import fields
from typing import Any

import plotly.graph_objects as go

from gpt2viz.export.about import About
from gpt2viz.export.sized import HEIGHT, LINE, WIDTH, fitted, shrunk
from gpt2viz.labels import markup_safe
from gpt2viz.pictures.palette import DARK, LIGHT, Palette

#: The caption's letters, in pixels.
_FONT = 11
FAMILY = "Arial, Helvetica, sans-serif"


def on_paper(
    figure: go.Figure,
    about: About | None = None,
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """A copy of a figure for white paper, ``about`` as a caption below it.

    Sizes are in pixels. Without ``width`` it is the figure's own; for another the figure is laid
    out anew, see ``sized.fitted``. ``height`` is that of all; without it the caption comes on top.
    Raises ``ExportError`` for a width without room.
    """
    size = float(_FONT)
    if width and width != figure.layout.width:
        size *= shrunk(figure, width)
        figure = fitted(figure, width)
    made = in_light(figure)
    layout = made.layout
    width = width or layout.width or WIDTH
    lines = _caption(about, width, size) if about else []
    added = round(1.45 * size * len(lines)) + (12 if lines else 0)
    drawn = height - added if height else layout.height or HEIGHT
    made.update_layout(width=width, height=drawn + added)
    if lines:
        _write_below(made, lines, added, size)
    for n, trace in enumerate(made.data):
        trace.uid = f"trace{n}"  # else plotly.js draws lots for names that get into the file
    return made


def _write_below(figure: go.Figure, lines: list[str], room: int, size: float) -> None:
    """Put lines at the lower edge, below the names of the axis, with ``room`` pixels for them."""
    height, margin = figure.layout.height, figure.layout.margin
    fixed = margin.autoexpand is False
    # Where Plotly makes the room itself it moves the lines too, if the margin is too small for
    # them; else the first one stands at y.
    above = LINE * size * (len(lines) - 1) if fixed else 0
    if fixed:
        figure.update_layout(margin_b=(margin.b or 0) + room)
    else:
        figure.update_layout(margin_b=0)
        figure.update_xaxes(automargin=True)
    figure.update_layout(
        title={
            "text": "<br>".join(markup_safe(line) for line in lines),
            "font": {"size": size, "color": LIGHT.ink, "family": FAMILY},
            "xref": "container",
            "x": 8 / figure.layout.width,
            "xanchor": "left",
            "yref": "container",
            "y": (8 + above) / height,
            "yanchor": "bottom",
            "automargin": not fixed,
            "pad": {"t": 0 if fixed else 12},
        }
    )


def in_light(figure: go.Figure) -> go.Figure:
    """A copy of a figure as a light page shows it, whichever page it was drawn for."""
    made = go.Figure(_in_light(figure.to_plotly_json(), named=False))
    made.update_layout(
        template="plotly_white",
        paper_bgcolor="#ffffff",
        font={"family": FAMILY, "color": LIGHT.ink},
    )
    # Ranges are fixed in the app, which has a way of its own to show a part.
    return made.update_xaxes(fixedrange=False).update_yaxes(fixedrange=False)


def _roles(colors: Palette) -> dict[str, Any]:
    return {f.name: getattr(colors, f.name) for f in fields(colors)}


_SCALES = [(DARK.unit, LIGHT.unit), (DARK.signed, LIGHT.signed)]
_SINGLE = dict(zip(DARK.sources, LIGHT.sources, strict=True)) | {
    dark: _roles(LIGHT)[role] for role, dark in _roles(DARK).items() if isinstance(dark, str)
}


def _in_light(part: Any, named: bool) -> Any:
    """A part of a figure with each dark colour replaced; ``named`` where it stands as a colour."""
    if isinstance(part, dict):
        return {key: _in_light(value, "color" in key) for key, value in part.items()}
    if isinstance(part, str):
        return _SINGLE.get(part, part) if named else part
    if not isinstance(part, list | tuple):
        return part
    if named:
        for dark, light in _SCALES:
            if [tuple(stop) for stop in dark] == [
                tuple(s) for s in part if isinstance(s, list | tuple)
            ]:
                return light
    return [_in_light(value, named) for value in part]


def _caption(about: About, width: int, size: float) -> list[str]:
    """Title and source, in lines that fit the width."""
    source = about.source.replace("gpt2viz ", "gpt2viz\u00a0").replace(" · ", "\u00a0· ")
    return [line for part in (about.title, source) for line in _lines(part, width - 16, size)]


def _lines(text: str, room: float, size: float) -> list[str]:
    """A text in lines of ``room`` pixels, broken at spaces where there are some."""
    lines: list[str] = []
    line = ""
    for word in re.split(r"(?<=[ \n\t])", text):
        while _across(line + word.rstrip(), size) > room:
            if not line:  # one word, such as a text without spaces, is wider than a line
                fits = next(
                    n for n in range(len(word), 0, -1) if n == 1 or _across(word[:n], size) <= room
                )
                line, word = word[:fits], word[fits:]
            lines, line = [*lines, line.rstrip()], ""
        line += word
    return [*lines, line] if line else lines


def _across(text: str, size: float) -> float:
    """Pixels that a text takes across, at most: in DejaVu Sans, wider than the others."""
    return size * sum(map(_letter, text))


def _letter(char: str) -> float:
    """What a letter takes across, of its size."""
    if unicodedata.east_asian_width(char) in "WF" or char in "mwMW@%…":
        return 1.0
    if char in " \u00a0ijlftrI.,:;·'|!()[]-":
        return 0.41
    return 0.78 if char.isupper() else 0.64
