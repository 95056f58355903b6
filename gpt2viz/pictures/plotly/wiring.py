"""Heads in a grid with edges between them, as a figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt2viz.pictures.circuits import Wire, Wiring
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.patching import READS

#: The role and the dash of edges into queries, keys and values …
_LOOKS: dict[str, tuple[str, str]] = {
    "q": ("query", "dash"),
    "k": ("key", "solid"),
    "v": ("value", "dot"),
}
#: … the receiver's side where they arrive, in heads, and the preferred position of the letter along
#: the edge.
_SIDE, _LETTER = {"q": -0.1, "k": 0.0, "v": 0.1}, {"q": 0.52, "k": 0.62, "v": 0.72}
#: Pixels from layer to layer, the fewest and the most; and the size of a head.
_NARROW, _WIDE, _HEAD = 52, 96, 26
#: Pixels: a letter's circle, and from head to head in a narrow picture.
_CIRCLE, _COLUMN = 16, 56
#: The widths of the strongest and of the thinnest edge, and the number of steps between.
_WIDEST, _THINNEST, _WIDTHS = 6.0, 1.2, 5
#: Points that an edge is drawn with: the pointer can hit each.
_POINTS = 15
_T = np.linspace(0, 1, _POINTS)


def draw(picture: Wiring, colors: Palette) -> dict[str, Any]:
    """Edges, their letters and the heads; the ``customdata`` of a letter is its edge's name."""
    row = min(_WIDE, max(_NARROW, 400 // picture.n_layer))
    traces: list[dict[str, Any]] = []
    for into in READS:
        some = [wire for wire in picture.wires if wire.edge.into == into]
        traces += [*_edges(picture, some, colors, row), _key(into, colors)]
    traces += [*_letters(picture, colors, row), _heads(picture, colors)]
    names = [f"{n}" for n in range(max(picture.n_layer, picture.n_head))]
    layers = {"range": [picture.n_layer - 0.55, -0.45]}
    layout = {
        "xaxis": _axis("head", names[: picture.n_head]),
        "yaxis": _axis("layer", names[: picture.n_layer]) | layers,
        "height": 70 + row * picture.n_layer,
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
        "legend": {"itemclick": False},
    }
    return {"data": traces, "layout": layout}


def _axis(title: str, names: list[str]) -> dict[str, object]:
    return {
        "title": {"text": title},
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "range": [-0.55, len(names) - 0.45],
    }


def _edges(
    picture: Wiring, wires: list[Wire], colors: Palette, row: int
) -> Iterator[dict[str, Any]]:
    """The edges of one kind, a trace for each width, the thinnest first; the chosen one alone."""
    most = max((wire.z for wire in picture.wires), default=1.0)
    for faint in (True, False):
        some = [wire for wire in wires if picture.stands_out(wire.edge) != faint]
        for n in range(1, _WIDTHS + 1):
            of_width = [w for w in some if max(1, round(w.z / most * _WIDTHS)) == n]
            if not of_width:
                continue
            role, dash = _LOOKS[of_width[0].edge.into]
            width = _THINNEST + (_WIDEST - _THINNEST) * (n - 1) / (_WIDTHS - 1)
            curves = [_curve(wire, row) for wire in of_width]
            gap = np.full((1, 2), np.nan)
            x, y = np.concatenate([part for c in curves for part in (c, gap)]).T
            hover = [text for wire in of_width for text in [wire.hover] * _POINTS + [""]]
            yield {
                "type": "scatter",
                "x": x,
                "y": y,
                "mode": "lines",
                "line": {"color": colors.shade(role, 1), "width": width, "dash": dash},
                "opacity": 0.5 if faint and picture.chosen is not None else 1,
                "hovertext": hover,
                "showlegend": False,
            }


def _curve(wire: Wire, row: int) -> NDArray[np.float64]:
    """An edge from below its sender to its own side of its receiver: (_POINTS, 2).

    It leaves and arrives vertically, and bends aside if it would cross heads between them.
    """
    (a, b), (c, d) = wire.edge.sender, wire.edge.receiver
    room = _HEAD / 2 / row
    start, end = (b, a + room), (d + _SIDE[wire.edge.into], c - room)
    pull = 0.45 * (end[1] - start[1])
    aside = 0.45 * (c - a - 1 > 0) * (1 if end[0] >= b else -1)
    by = [start, (b + aside, start[1] + pull), (end[0] + aside, end[1] - pull), end]
    weights = ((1 - _T) ** 3, 3 * (1 - _T) ** 2 * _T, 3 * (1 - _T) * _T**2, _T**3)
    return np.array(weights).T @ np.array(by, np.float64)


def _letters(picture: Wiring, colors: Palette, row: int) -> Iterator[dict[str, Any]]:
    """Q, K or V on every edge, so as not to rely on colour; a click on one chooses it."""
    positions = _free_positions(picture, row)
    for into, (role, _dash) in _LOOKS.items():
        mine = [n for n, wire in enumerate(picture.wires) if wire.edge.into == into]
        if not mine:
            continue
        some, (x, y) = [picture.wires[n] for n in mine], positions[mine].T
        yield {
            "type": "scatter",
            "x": x,
            "y": y,
            "mode": "markers+text",
            "text": [into.upper()] * len(some),
            "textfont": {"size": 11},
            "marker": {
                "size": _CIRCLE,
                "color": colors.unit[0][1],
                "line": {"color": colors.shade(role, 1), "width": 1},
            },
            "customdata": [str(wire.edge) for wire in some],
            "hovertext": [wire.hover for wire in some],
            "showlegend": False,
        }


def _free_positions(picture: Wiring, row: int) -> NDArray[np.float64]:
    """The position of each edge's letter on it, (edges, 2): apart from heads and other letters
    if there is room, else as far from them as possible."""
    pixels = np.array([_COLUMN, row])
    heads = np.array([(n, layer) for layer, n in np.ndindex(picture.n_layer, picture.n_head)])
    taken = np.empty((0, 2))
    for wire in picture.wires:
        best = _LETTER[wire.edge.into] * (_POINTS - 1)
        order = sorted(range(2, _POINTS - 2), key=lambda n: abs(n - best))
        curve = _curve(wire, row)[order]
        apart = [
            np.abs((others - curve[:, None]) * pixels).max(axis=2).min(axis=1, initial=np.inf)
            / room
            for others, room in ((taken, _CIRCLE), (heads, (_HEAD + _CIRCLE) / 2))
        ]
        taken = np.vstack([taken, curve[np.minimum(1, np.minimum(*apart)).argmax()]])
    return taken


def _heads(picture: Wiring, colors: Palette) -> dict[str, Any]:
    """Every head in the grid; those of the chosen edge are framed."""
    positions = list(np.ndindex(picture.n_layer, picture.n_head))
    chosen = picture.chosen
    framed = [chosen is not None and at in (chosen.sender, chosen.receiver) for at in positions]
    ink, grid = colors.second, colors.grid
    return {
        "type": "scatter",
        "x": [head for _, head in positions],
        "y": [layer for layer, _ in positions],
        "mode": "markers+text",
        "text": [f"{layer}.{head}" for layer, head in positions],
        "textfont": {"size": 11},
        "marker": {
            "symbol": "square",
            "size": _HEAD,
            "color": colors.unit[0][1],
            "line": {
                "color": [ink if on else grid for on in framed],
                "width": [3 if on else 1 for on in framed],
            },
        },
        "hovertext": [f"head {layer}.{head}" for layer, head in positions],
        "showlegend": False,
    }


def _key(into: str, colors: Palette) -> dict[str, Any]:
    """The line of one kind in the legend."""
    role, dash = _LOOKS[into]
    return {
        "type": "scatter",
        "x": [None],
        "y": [None],
        "mode": "lines",
        "line": {"color": colors.shade(role, 1), "width": 3, "dash": dash},
        "name": f"{into.upper()}: into {READS[into]}",
    }
