"""A picture for paper: white behind, dark writing, and a caption that says where it comes from."""

from __future__ import annotations

import textwrap

import plotly.graph_objects as go

from gpt2viz.export.about import About
from gpt2viz.figures.palette import LIGHT
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
    on top. Colours of the numbers stay as the figure has them.
    """
    made = go.Figure(figure)
    layout = made.layout
    width = width or layout.width or WIDTH
    lines = _caption(about, width) if about else []
    added = _LINE * len(lines) + (12 if lines else 0)
    drawn = height - added if height else layout.height or HEIGHT
    made.update_layout(
        width=width,
        height=drawn + added,
        paper_bgcolor="#ffffff",
        font={"family": FAMILY, "color": LIGHT.ink},
    )
    if lines:
        made.update_layout(
            title={
                "text": "<br>".join(markup_safe(line) for line in lines),
                "font": {"size": _FONT, "color": LIGHT.ink, "family": FAMILY},
                "xref": "container",
                "x": 8 / width,
                "xanchor": "left",
                "yref": "container",
                "y": 8 / (drawn + added),
                "yanchor": "bottom",
                "automargin": True,  # below the names of the axis, however long these are
            }
        )
    return made


def _caption(about: About, width: int) -> list[str]:
    """Title and source, in lines that fit the width: a letter takes half of its height or so."""
    letters = max(20, round((width - 16) / (0.52 * _FONT)))
    source = about.source.replace("gpt2viz ", "gpt2viz\u00a0")
    return [line for part in (about.title, source) for line in textwrap.wrap(part, letters)]
