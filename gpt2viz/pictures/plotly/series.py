"""Bars, curves and points in a plane as Plotly's JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt2viz.labels import shorten
from gpt2viz.pictures.palette import FILLS, POINTS, Palette
from gpt2viz.pictures.picture import Bars, Case, Curve, Curves, Points

#: The number of names that fit below bars, and of letters beside a horizontal bar.
NAMED, LETTERS = 30, 28
#: The most vertical bars with numbers side by side above them; over more they are turned.
_ABREAST = 12
#: Pixels: a number's letters, one of several bars of a name, and the gap between names.
_LETTER, _BAR, _BETWEEN = 11, 13, 5


def draw_bars(picture: Bars, colors: Palette) -> dict[str, Any]:
    """One trace per case; names are at the axis, numbers at the bars' ends."""
    most = max(Counter(n for case in picture.cases for n in case.at).values(), default=1)
    named = any(case.name for case in picture.cases)
    layout = {
        "barmode": "group" if most > 1 else "overlay",
        "showlegend": named,
    }
    layout |= _horizontal(picture, most) if picture.across else _vertical(picture, named)
    traces = [_bars(picture, case, colors, most) for case in picture.cases]
    return {"data": traces, "layout": layout}


def _bars(picture: Bars, case: Case, colors: Palette, most: int) -> dict[str, Any]:
    """The bars of a case; a name has up to ``most`` bars of all cases."""
    ends = {"x": list(case.at), "y": np.asarray(case.values, np.float64)}
    if picture.across:
        ends = {"x": ends["y"], "y": ends["x"]}
    size = _LETTER if most > 1 or not picture.across else 12
    return {
        "type": "bar",
        **ends,
        "name": case.name,
        "orientation": "h" if picture.across else "v",
        "marker": {
            "color": colors.shade(case.role, len(picture.cases)),
            "pattern": {"shape": _fills(case)},
        },
        "text": case.written or None,
        "textangle": -90 if _is_upright(picture) else 0,
        "textfont": {"size": size},
        "hovertext": [f"{text}\n{case.name}".rstrip() for text in case.hover],
    }


def _is_upright(picture: Bars) -> bool:
    """True if the numbers above vertical bars are turned, as they would overlap."""
    return not picture.across and len(picture.names) > _ABREAST


def _fills(case: Case) -> str | list[str]:
    """The bars' fill: a case's own pattern, and another for a bar of many things."""
    fill = FILLS[case.role] if isinstance(case.role, int) else ""
    return [fill] * (len(case.at) - 1) + ["/"] if case.rest else fill


def _horizontal(picture: Bars, most: int) -> dict[str, Any]:
    """The layout of horizontal bars from the top down, up to ``most`` of them per name.

    Each is as tall as its number, which would otherwise overlap the next one.
    """
    height = max(26, _BAR * most + _BETWEEN)
    return {
        "yaxis": {
            "tickvals": list(range(len(picture.names))),
            "ticktext": [shorten(name, LETTERS) for name in picture.ticks or picture.names],
            "autorange": "reversed",
        },
        "xaxis": {"title": {"text": picture.quantity}, "rangemode": "tozero"},
        "height": 80 + height * len(picture.names),
        "margin": {"l": 8, "r": 56, "t": 30, "b": 8},
        "bargap": _BETWEEN / height if most > 1 else 0.35,
    }


def _vertical(picture: Bars, named: bool) -> dict[str, Any]:
    """The layout of vertical bars from left to right; ``named`` cases get a legend above."""
    n_places, n_cases = len(picture.names), len(picture.cases)
    turned = 26 * (_is_upright(picture) and any(case.written for case in picture.cases))
    step = -(-n_places // NAMED)
    return {
        "xaxis": {
            "tickvals": list(range(0, n_places, step)),
            "ticktext": (picture.ticks or picture.names)[::step],
            "range": [-0.5, n_places - 0.5],
        },
        "yaxis": {"title": {"text": picture.quantity}, "rangemode": "tozero"},
        "height": (260 if named else 230) + turned,
        "margin": {"l": 8, "r": 8, "t": (34 if named else 22) + turned, "b": 8},
        "bargap": 1 - min(0.8, n_cases * (0.05 + 0.05 * n_places)),  # else a few bars are wide
    }


def draw_curves(picture: Curves, colors: Palette) -> dict[str, Any]:
    """One line per curve, distinguished by colour, dash and point symbols."""
    n_cases = len({curve.role for curve in picture.curves if isinstance(curve.role, int)})
    names = [x for curve in picture.curves for x in curve.x if isinstance(x, str)]
    x: dict[str, Any] = {"title": {"text": picture.x_title}}
    if names:
        x |= {"type": "category", "categoryarray": [*dict.fromkeys(names)]}
    if picture.log:
        x["type"] = "log"
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
    }
    lines = [_line(curve, colors, n_cases) for curve in picture.curves]
    return {"data": lines, "layout": layout}


def _line(curve: Curve, colors: Palette, n_cases: int) -> dict[str, Any]:
    signs = {"marker": {"symbol": curve.point}} if curve.point else {}
    return {
        "type": "scatter",
        "x": list(curve.x),
        "y": np.asarray(curve.y),
        "name": curve.name,
        "mode": "lines+markers" if curve.point else "lines",
        "line": {"color": colors.shade(curve.role, n_cases), "dash": curve.dash},
        **signs,
        "hovertext": [f"{text}\n{curve.name}".rstrip() for text in curve.hover],
    }


#: The free space at the sides, as a share of the width, for names at the edge.
_MARGIN = 0.15


def draw_points(picture: Points, colors: Palette) -> dict[str, Any]:
    """Circles, and diamonds for those ``made``, at true relative distances."""
    made = [n in picture.made for n in range(len(picture.names))]
    hover = [
        f"{name}\n{x:.4g}, {y:.4g}"
        for name, x, y in zip(picture.names, picture.x, picture.y, strict=True)
    ]
    low, high = min(picture.x, default=0.0), max(picture.x, default=0.0)
    free = _MARGIN * (high - low) or 1.0
    points = {
        "type": "scatter",
        "x": list(picture.x),
        "y": list(picture.y),
        "text": picture.names,
        "mode": "markers+text",
        "textposition": _sides(np.column_stack([picture.x, picture.y])),
        "textfont": {"size": 13},
        "marker": {
            "size": [13 if own else 9 for own in made],
            "symbol": [POINTS[own] for own in made],
            "color": [colors.second if own else colors.accent for own in made],
            "line": {"width": 2},
        },
        "hovertext": hover,
    }
    layout = {
        "xaxis": {"title": {"text": picture.x_title}, "range": [low - free, high + free]},
        "yaxis": {"title": {"text": picture.y_title}, "scaleanchor": "x"},
        "height": picture.height,
        "margin": {"l": 8, "r": 8, "t": 24, "b": 8},
    }
    return {"data": [points], "layout": layout}


def _sides(points: NDArray[np.float64]) -> list[str]:
    """The side of each point (n, 2) for its name: away from the nearest point."""
    sides = []
    for n, point in enumerate(points):
        away = point - np.delete(points, n, axis=0)  # (n − 1, 2)
        across, up = away[np.hypot(*away.T).argmin()] if len(away) else (0.0, 1.0)
        if abs(across) > abs(up):
            sides.append("middle right" if across > 0 else "middle left")
        else:
            sides.append("bottom center" if up < 0 else "top center")
    return sides
