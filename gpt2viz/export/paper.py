"""A picture for paper: in the colours of a light page, with a caption that says what it shows."""

from __future__ import annotations

import re
import unicodedata

import plotly.graph_objects as go

from gpt2viz.export.about import About
from gpt2viz.export.sized import HEIGHT, LINE, WIDTH, fitted, shrunk
from gpt2viz.labels import markup_safe
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.picture import Picture
from gpt2viz.pictures.plotly.render import render

#: The caption's letters, in pixels.
_FONT = 11
FAMILY = "Arial, Helvetica, sans-serif"


def on_paper(
    figure: Picture | go.Figure,
    about: About | None = None,
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """A picture, or a copy of a figure, for white paper, with ``about`` as a caption below it.

    Sizes are in pixels. Without ``width`` it is the figure's own; for another the figure is laid
    out anew, see ``sized.fitted``. ``height`` is that of all; without it the caption comes on top.
    Raises ``ExportError`` for a width without room.
    """
    size = float(_FONT)
    made = on_white(figure)
    if width and width != made.layout.width:
        size *= shrunk(made, width)
        made = fitted(made, width)
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


def on_white(figure: Picture | go.Figure) -> go.Figure:
    """A picture in the colours of a light page, or a copy of a figure, with a page of its own."""
    drawn = render(figure, LIGHT) if isinstance(figure, Picture) else figure
    made = go.Figure(drawn)
    made.update_layout(
        template="plotly_white",
        paper_bgcolor="#ffffff",
        font={"family": FAMILY, "color": LIGHT.ink},
    )
    # Ranges are fixed in the app, which has a way of its own to show a part.
    return made.update_xaxes(fixedrange=False).update_yaxes(fixedrange=False)


def _caption(about: About, width: int, size: float) -> list[str]:
    """Title and source, in lines that fit the width."""
    source = about.source.replace("gpt2viz ", "gpt2viz\u00a0").replace(" · ", "\u00a0· ")
    return [line for part in (about.title, source) for line in wrapped(part, width - 16, size)]


def wrapped(text: str, room: float, size: float) -> list[str]:
    """A text in lines of ``room`` pixels, with letters of ``size``, broken at spaces if any."""
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
