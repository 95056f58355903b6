"""Bars side by side at named places."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from gpt2viz.labels import shorten
from gpt2viz.pictures.palette import FILLS, Palette, filled
from gpt2viz.pictures.picture import Bars, Case
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import LEGEND_ABOVE, markup

#: So many names fit below bars, and so many letters of one beside a bar that lies.
NAMED, LETTERS = 30, 26
#: Over so many bars that stand their numbers fit side by side; over more they stand upright.
_ABREAST = 12
#: Pixels: a number's letters, one of several bars at a place and what is left between places.
_LETTER, _BAR, _BETWEEN = 11, 13, 5


def draw(picture: Bars, colors: Palette) -> Figure:
    """One trace a case; the names stand at the axis, the numbers at the bars' ends."""
    most = max(Counter(n for case in picture.cases for n in case.at).values(), default=1)
    named = any(case.name for case in picture.cases)
    layout = {
        "barmode": "group" if most > 1 else "overlay",
        "showlegend": named,
        "legend": LEGEND_ABOVE,
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left"},
    }
    layout |= _lying(picture, most) if picture.across else _standing(picture, named)
    traces = [_bars(picture, case, colors, most) for case in picture.cases]
    return Figure(data=traces, layout=layout)


def _bars(picture: Bars, case: Case, colors: Palette, most: int) -> dict[str, Any]:
    """The bars of a case; up to ``most`` of all cases are at a place."""
    ends = {"x": list(case.at), "y": np.asarray(case.values, np.float64)}
    if picture.across:
        ends = {"x": ends["y"], "y": ends["x"]}
    size = _LETTER if most > 1 or not picture.across else 12
    return {
        "type": "bar",
        **ends,
        "name": markup(case.name),
        "orientation": "h" if picture.across else "v",
        "marker": filled(colors.shade(case.role, len(picture.cases)), _fills(case)),
        "text": [markup(text) for text in case.written] or None,
        "textposition": "outside",
        "textangle": -90 if _upright(picture) else 0,
        "textfont": {"size": size, "color": colors.ink},
        "constraintext": "none",  # else Plotly makes the numbers as small as the bars are thin
        "cliponaxis": False,
        "customdata": [markup(text) for text in case.said],
        "hovertemplate": f"%{{customdata}}<extra>{markup(case.name)}</extra>",
    }


def _upright(picture: Bars) -> bool:
    """Whether numbers over bars that stand are turned, as they would run into one another."""
    return not picture.across and len(picture.places) > _ABREAST


def _fills(case: Case) -> str | list[str]:
    """What fills the bars: a case's own pattern, and another for what stands for many things."""
    fill = FILLS[case.role] if isinstance(case.role, int) else ""
    return [fill] * (len(case.at) - 1) + ["/"] if case.rest else fill


def _lying(picture: Bars, most: int) -> dict[str, Any]:
    """The layout of bars from the top down, up to ``most`` of them at a place.

    Each is as tall as its number, which otherwise lies on the next one.
    """
    place = max(26, _BAR * most + _BETWEEN)
    return {
        "yaxis": {
            "tickvals": list(range(len(picture.places))),
            "ticktext": [
                markup(shorten(name, LETTERS)) for name in picture.ticks or picture.places
            ],
            "autorange": "reversed",
            "automargin": True,
            "ticks": "",
        },
        "xaxis": {"title": {"text": picture.quantity}, "rangemode": "tozero"},
        "height": 80 + place * len(picture.places),
        "margin": {"l": 8, "r": 56, "t": 30, "b": 8},
        "bargap": _BETWEEN / place if most > 1 else 0.35,
    }


def _standing(picture: Bars, named: bool) -> dict[str, Any]:
    """The layout of bars from left to right; of ``named`` cases there is a legend above them."""
    n_places, n_cases = len(picture.places), len(picture.cases)
    turned = 26 * (_upright(picture) and any(case.written for case in picture.cases))
    step = -(-n_places // NAMED)
    return {
        "xaxis": {
            "tickvals": list(range(0, n_places, step)),
            "ticktext": [markup(name) for name in (picture.ticks or picture.places)[::step]],
            "range": [-0.5, n_places - 0.5],
        },
        "yaxis": {"title": {"text": picture.quantity}, "rangemode": "tozero"},
        "height": (260 if named else 230) + turned,
        "margin": {"l": 8, "r": 8, "t": (34 if named else 22) + turned, "b": 8},
        "bargap": 1 - min(0.8, n_cases * (0.05 + 0.05 * n_places)),  # a few bars are no walls
    }
