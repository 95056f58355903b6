"""A picture for paper: in the colours of a light page, with a caption that says what it shows."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from typing import Any

import plotly.graph_objects as go

from gpt2viz.export.about import About
from gpt2viz.figures.palette import DARK, LIGHT, Palette
from gpt2viz.labels import markup_safe

#: Plotly's pixels, 96 to the inch: seven and a half inches, the width of a page's text.
WIDTH = 720
HEIGHT = 450
_LINE, _FONT = 16, 11
FAMILY = "Arial, Helvetica, sans-serif"


def on_paper(
    figure: go.Figure,
    about: About | None = None,
    width: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """A copy of a figure for white paper, ``about`` as a caption below it.

    Sizes are in pixels; where they aren't given they are the figure's own, and the caption comes
    on top.
    """
    made = in_light(figure)
    layout = made.layout
    width = width or layout.width or WIDTH
    lines = _caption(about, width) if about else []
    added = _LINE * len(lines) + (12 if lines else 0)
    drawn = height - added if height else layout.height or HEIGHT
    made.update_layout(
        width=width,
        height=drawn + added,
    )
    if lines:
        _write_below(made, lines, added)
    return made


def _write_below(figure: go.Figure, lines: list[str], room: int) -> None:
    """Put lines at the lower edge, below the names of the axis, with ``room`` pixels for them."""
    height, margin = figure.layout.height, figure.layout.margin
    fixed = margin.autoexpand is False
    # Where Plotly makes the room itself it moves the lines too, if the margin is too small for
    # them; else the first one stands at y.
    above = 1.3 * _FONT * (len(lines) - 1) if fixed else 0
    if fixed:
        figure.update_layout(margin_b=(margin.b or 0) + room)
    else:
        figure.update_layout(margin_b=0)
        figure.update_xaxes(automargin=True)
    figure.update_layout(
        title={
            "text": "<br>".join(markup_safe(line) for line in lines),
            "font": {"size": _FONT, "color": LIGHT.ink, "family": FAMILY},
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
    return made


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


def _caption(about: About, width: int) -> list[str]:
    """Title and source, in lines that fit the width: a letter takes half of its height or so."""
    letters = max(20, round((width - 16) / (0.52 * _FONT)))
    source = about.source.replace("gpt2viz ", "gpt2viz\u00a0").replace(" · ", "\u00a0· ")
    return [line for part in (about.title, source) for line in textwrap.wrap(part, letters)]
