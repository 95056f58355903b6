"""Curves over one axis of numbers or of names."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Curve, Curves
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import LEGEND_ABOVE, markup


def draw(picture: Curves, colors: Palette) -> Figure:
    """One line a curve, told apart by colour, by dash and by the signs of its points."""
    n_cases = len({one.role for one in picture.curves if isinstance(one.role, int)})
    names = [x for one in picture.curves for x in one.x if isinstance(x, str)]
    x: dict[str, Any] = {"title": {"text": picture.x_title}}
    if names:
        order = [markup(name) for name in dict.fromkeys(names)]
        x |= {"type": "category", "categoryorder": "array", "categoryarray": order}
    if picture.log:
        x |= {"type": "log", "dtick": 1, "tickformat": "~s"}
    y: dict[str, Any] = {"title": {"text": picture.y_title}}
    if picture.highest is not None:
        y["range"] = [picture.lowest, picture.highest]
    elif picture.lowest == 0:
        y["rangemode"] = "tozero"
    layout = {
        "xaxis": x,
        "yaxis": y,
        "height": picture.height,
        "margin": {"l": 8, "r": 8, "t": 50 if names else 34, "b": 8},
        "legend": LEGEND_ABOVE,
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left"},
    }
    return Figure(data=[_line(one, colors, n_cases) for one in picture.curves], layout=layout)


def _line(curve: Curve, colors: Palette, n_cases: int) -> dict[str, Any]:
    color = colors.shade(curve.role, n_cases)
    signs = {"marker": {"symbol": curve.point}} if curve.point else {}
    return {
        "type": "scatter",
        "x": [markup(x) if isinstance(x, str) else x for x in curve.x],
        "y": np.asarray(curve.y),
        "name": markup(curve.name),
        "mode": "lines+markers" if curve.point else "lines",
        "line": {"color": color, "dash": curve.dash, "width": 2},
        **signs,
        "customdata": [markup(text) for text in curve.said],
        "hovertemplate": f"%{{customdata}}<extra>{markup(curve.name)}</extra>",
    }
