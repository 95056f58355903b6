"""Plotly's figures on paper: in the colours of a light page, with a caption.

On another width a figure isn't the same picture made smaller: letters keep a size that can be read,
names and colour bar the room that they need.
"""

from __future__ import annotations

import base64
from typing import Any

import plotly.graph_objects as go

from gpt2viz.errors import ExportError
from gpt2viz.export.about import About
from gpt2viz.labels import markup_safe
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.picture import Lens, Picture
from gpt2viz.pictures.plotly.render import render
from gpt2viz.pictures.svg import FAMILY, LEAST, LINE, NAMES, WIDTH, Sheet, wrapped

#: Height and letters of a figure that says none; the least widths, that of a lens in a row last.
_HEIGHT, _FONT, _NARROWEST, _BESIDE = 450, 12, 160, 480


def as_figure(sheet: Sheet) -> go.Figure:
    """An SVG as a figure that is nothing but this picture, for what prints Plotly's figures."""
    content = base64.b64encode(sheet.svg().encode()).decode()
    ends = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "sizex": 1, "sizey": 1}
    image = {"source": f"data:image/svg+xml;base64,{content}", "sizing": "stretch", **ends}
    return go.Figure(
        layout={
            "template": "none",
            "width": round(sheet.width),
            "height": round(sheet.height),
            "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
            "images": [image],
            "xaxis": {"visible": False},
            "yaxis": {"visible": False},
        }
    )


def lay_out(
    figure: Picture | go.Figure,
    about: About | None = None,
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """A picture, or a copy of a figure, for white paper, with ``about`` as a caption below it.

    Sizes are in pixels. Without ``width`` it is the figure's own; for another the figure is laid
    out anew, see ``fitted``. ``height`` is that of all; without it the caption comes on top.
    Raises ``ExportError`` for a width without room.
    """
    size = float(NAMES)
    made = on_white(figure)
    if width and width != made.layout.width:
        if isinstance(figure, Lens) and width < _BESIDE:
            _stack(made.layout)
        size *= shrunk(made, width)
        made = fitted(made, width)
    layout = made.layout
    width = width or layout.width or WIDTH
    caption = about.caption if about else ()
    lines = [line for part in caption for line in wrapped(part, width - 16, size)]
    added = round(1.45 * size * len(lines)) + (12 if lines else 0)
    drawn = height - added if height else layout.height or _HEIGHT
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


def _stack(layout: go.Layout) -> None:
    """Put a lens's two plots of curves below its matrix, on rows of the same names."""
    plots = ("", 0.0, 1.0, 0.62, 1.0), ("2", 0.0, 0.45, 0.0, 0.38), ("3", 0.55, 1.0, 0.0, 0.38)
    for note, (on, left, right, low, high) in zip(layout.annotations, plots, strict=True):
        layout[f"xaxis{on}"].domain, layout[f"yaxis{on}"].domain = (left, right), (low, high)
        note.update(x=(left + right) / 2, y=high)
    layout.yaxis2.showticklabels = True
    layout.height *= 2


def shrunk(figure: go.Figure, width: int) -> float:
    """The factor for letters and margins of a figure that is drawn ``width`` pixels wide.

    As much as the figure, but no letter smaller than ``LEAST``; on wider paper they stay.
    """
    return min(1.0, max(width / (figure.layout.width or WIDTH), LEAST / NAMES))


def fitted(figure: go.Figure, width: int) -> go.Figure:
    """A copy of a figure that is ``width`` pixels wide, and as much lower as letters are smaller.

    The rows of a lens have room for their names. Raises ``ExportError`` for a width without room.
    """
    if width < _NARROWEST:
        least = _NARROWEST / 96 * 2.54
        raise ExportError(f"Names and colour bar need a picture at least {least:.1f} cm wide.")
    ratio = shrunk(figure, width)
    made = go.Figure(figure)
    made.layout = _smaller(figure.layout.to_plotly_json(), ratio)
    for trace in made.data:
        options = trace.to_plotly_json()
        trace.update(
            {k: _smaller(options[k], ratio, k) for k in ("textfont", "colorbar") if k in options}
        )
    size = made.layout.font.size = max(LEAST, (figure.layout.font.size or _FONT) * ratio)
    for note in made.layout.annotations:  # titles of plots side by side
        if note.xref == "paper" and note.yanchor == "bottom":
            sides = len({x.x for x in made.layout.annotations if x.yanchor == "bottom"})
            lines = wrapped(note.text, 0.7 * width / sides, note.font.size or size)
            note.text = "<br>".join(lines)
            made.layout.margin.t = max(made.layout.margin.t or 0, LINE * size * (len(lines) + 1))
    n_rows = max((len(x.z) for x in figure.data if x.type == "heatmap"), default=0)
    down = max((figure.layout.height or _HEIGHT) * ratio, LINE * size * (n_rows + 4))
    own, edge = figure.layout.margin, made.layout.margin
    if own.autoexpand is False and any(axis.scaleanchor for axis in made.select_xaxes()):
        enlarged = (width - edge.l - edge.r) / (figure.layout.width - own.l - own.r)
        down = edge.t + edge.b + (figure.layout.height - own.t - own.b) * enlarged
    bar = made.layout.coloraxis.colorbar
    if bar.lenmode == "pixels":
        bar.len = min(bar.len, down / 2)
    made.update_layout(width=width, height=round(down))
    return made


def _smaller(part: Any, ratio: float, name: str = "") -> Any:
    """A part of a figure with all that is in pixels made smaller, letters not below ``LEAST``."""
    if isinstance(part, list | tuple):
        return [_smaller(item, ratio, name) for item in part]
    if not isinstance(part, dict):
        return part
    smaller = {key: _smaller(value, ratio, key) for key, value in part.items()}
    lengths = {"margin": "lrtb", "colorbar": ("thickness", "xpad", "len")}.get(name, ())
    if name.endswith("font"):
        lengths = ("size",)
    # Plotly keeps an axis' title 10 pixels from its names, however small these are.
    margins = {"l": 10 * (1 - ratio), "b": 10 * (1 - ratio)}
    for key in lengths:
        in_pixels = key != "len" or smaller.get("lenmode") == "pixels"
        if in_pixels and isinstance(smaller.get(key), int | float):
            made = smaller[key] * ratio + margins.get(key, 0)
            smaller[key] = max(made, LEAST) if key == "size" else made
    return smaller
