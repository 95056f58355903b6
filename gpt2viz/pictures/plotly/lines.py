"""Lines from queries to keys as a figure that can be saved: the view at rest, on one scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from gpt2viz.pictures.lines import Lines, Source
from gpt2viz.pictures.palette import DASHES, Palette
from gpt2viz.pictures.panel import Axis
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import markup

#: Pixels of the widest line, and so many widths are told apart below it.
WIDEST, WIDTHS = 9.0, 18


def draw(found: Lines, colors: Palette) -> Figure:
    """Queries on the left, keys on the right, and every line that is drawn while at rest.

    A line's width is its number, rounded to a ``WIDTHS``-th of the widest, which is ``peak``.
    """
    figure = Figure()
    for source, color, dash in zip(
        found.sources, colors.cases(len(found.sources)), DASHES, strict=False
    ):
        figure.add_traces(_lines(found, source, color, dash))
    for x, axis, side in ((0.0, found.rows, "left"), (1.0, found.columns, "right")):
        figure.add_trace(_names(axis, x, side, colors))
    heads = ((0, "query: who looks"), (1, "key: what it looks at"))
    said = [(0.5, f"lines from {found.at_rest:.2g} up"), *heads]
    for x, text in said:
        figure.add_annotation(x=x, y=-0.55, yanchor="bottom", text=text, showarrow=False)
    longest = max(len(found.rows.labels), len(found.columns.labels))
    hidden = {"visible": False, "fixedrange": True}
    figure.update_layout(
        height=90 + max(15, min(26, 2000 // longest)) * longest,
        margin={"l": 8, "r": 8, "t": 40, "b": 8},
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis=hidden | {"range": [-0.35, 1.35]},
        yaxis=hidden | {"range": [longest - 0.4, -1.4]},
        legend={"orientation": "h", "x": 0.5, "xanchor": "center", "y": 1.0, "yanchor": "bottom"},
        title={"text": ""},
    )
    return figure


def _lines(found: Lines, source: Source, color: str, dash: str) -> list[go.Scatter]:
    """The lines of one matrix, a trace a width, and their line in the legend."""
    key: dict[str, Any] = {"color": color, "width": 4, "dash": dash}
    name = markup(source.name)
    drawn = [
        go.Scatter(
            x=np.tile([0.0, 1.0, np.nan], len(part)),
            y=_ends(source, part),
            mode="lines",
            line={"color": color, "width": n * WIDEST / WIDTHS, "dash": dash},
            opacity=0.75,
            name=name,
            legendgroup=name,
            showlegend=False,
            hoverinfo="skip",
        )
        for n, part in _by_width(found, source)
    ]
    legend = go.Scatter(x=[None], y=[None], mode="lines", line=key, name=name, showlegend=True)
    return [*drawn, legend]


def _by_width(found: Lines, source: Source) -> list[tuple[int, np.ndarray]]:
    """The lines of a matrix by their width: (width, which lines), the thinnest first."""
    widths = np.maximum(1, np.rint(source.weights / found.peak * WIDTHS)).astype(int)
    drawn = source.weights >= found.at_rest
    every = ((n, np.flatnonzero(drawn & (widths == n))) for n in range(1, WIDTHS + 1))
    return [(n, part) for n, part in every if len(part)]


def _ends(source: Source, part: np.ndarray) -> np.ndarray:
    """y of each line's two ends, with a gap after it."""
    gaps = np.full(len(part), np.nan)
    made: np.ndarray = np.stack([source.queries[part], source.keys[part], gaps], 1).ravel()
    return made


def _names(axis: Axis, x: float, side: str, colors: Palette) -> go.Scatter:
    names = axis.names()
    return go.Scatter(
        x=[x] * len(names),
        y=list(range(len(names))),
        mode="markers+text",
        text=[f"{name}&nbsp;" if side == "left" else f"&nbsp;{name}" for name in names],
        textposition=f"middle {side}",
        textfont={"color": colors.ink, "size": 11},
        marker={"color": colors.ink, "size": 3},
        showlegend=False,
        hoverinfo="skip",
    )
