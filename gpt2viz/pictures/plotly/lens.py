"""The curves of a logit lens, on the rows of its matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import ENTROPY, LENS_ROW, RANK, Lens
from gpt2viz.pictures.plotly.matrices import Box, heading, markup

# At the lower edge, whatever the height: a share of it would lie on the numbers of a low axis.
_BELOW = {"orientation": "h", "x": 1, "xanchor": "right"}
_BELOW |= {"y": 0, "yref": "container", "yanchor": "bottom"}
#: The axes of ranks and of bits.
_RANKS: dict[str, Any] = {"title": {"text": "1 = first", "standoff": 8}, "range": [-0.1, None]}
_RANKS |= {"type": "log", "dtick": 1, "tickformat": "~s", "tickangle": 0}
_BITS = {"rangemode": "tozero"}
#: Where the canvas begins the first row of a matrix with a title of one line, in pixels.
_TITLE = 20
#: Numbers and their title below curves, and a legend below these, in pixels.
_NUMBERS, _LEGEND = 60, 30


def draw_curves(picture: Lens, colors: Palette, *, named: bool = True) -> dict[str, Any]:
    """Rank and entropy alone, their rows as high as those of the matrix on the canvas beside.

    Rows are ``named`` unless that matrix stands beside.
    """
    layout = _side_by_side(picture, [RANK, ENTROPY], [0.5, 0.5], 0.08)
    layout["xaxis"] |= _RANKS
    layout["xaxis2"] |= _BITS
    layout["yaxis"]["showticklabels"] = named
    bottom = _NUMBERS + _LEGEND * any(reading.name for reading in picture.readings)
    layout |= {
        "height": _TITLE + LENS_ROW * len(picture.panel.values) + bottom,
        "margin": {"l": 8, "r": 8, "t": _TITLE, "b": bottom, "autoexpand": named},
    }
    return {"data": _curves(picture, colors, "", "2"), "layout": layout}


def _side_by_side(
    picture: Lens, titles: Sequence[str], shares: Sequence[float], between: float
) -> dict[str, Any]:
    """The layout of plots with the rows of the lens, from the top down.

    ``between`` is the gap as a share of the width; the plots have ``shares`` of the rest.
    """
    rows = {
        "type": "category",
        "range": [len(picture.panel.values) - 0.5, -0.5],
        "showgrid": False,
        "domain": [0, 1],
    }
    layout: dict[str, Any] = {
        "annotations": [],
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left"},
        "legend": _BELOW,
    }
    left, room = 0.0, 1 - between * (len(titles) - 1)
    for n, (title, share) in enumerate(zip(titles, shares, strict=True)):
        on = str(n + 1) if n else ""  # Plotly calls the axes x, x2, x3, …
        box = Box((left, min(1.0, left + room * share)), (0, 1), first=n == 0, last=True)
        names = {} if box.first else {"matches": "y", "showticklabels": False}
        layout[f"xaxis{on}"] = {"anchor": f"y{on}", "domain": box.x}
        layout[f"yaxis{on}"] = rows | {"anchor": f"x{on}"} | names
        layout["annotations"].append(heading(title, box))
        left = box.x[1] + between
    return layout


def _curves(picture: Lens, colors: Palette, *on: str) -> list[dict[str, Any]]:
    """Every reading's rank and entropy, ``on`` the axes of these names; the legend names a
    reading once."""
    traces = []
    for reading in picture.readings:
        name = markup(reading.name)
        units = (reading.rank, "rank %{x:,}"), (reading.entropy, "%{x:.3f} bits")
        for axis, (values, unit), role in zip(on, units, reading.roles, strict=True):
            line = {
                "type": "scatter",
                "x": values,
                "y": picture.panel.rows.names(),
                "xaxis": f"x{axis}",
                "yaxis": f"y{axis}",
                "mode": "lines+markers",
                "line": {"color": colors.shade(role, len(picture.readings))},
                "marker": {"symbol": reading.point},
                "name": name,
                "hovertemplate": f"%{{y}}<br>{unit}<extra>{name}</extra>",
                "showlegend": bool(name) and axis == on[0],
            }
            traces.append(line)
    return traces
