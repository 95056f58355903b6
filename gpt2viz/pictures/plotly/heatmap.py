"""One matrix as a heatmap, or several: rows are queries, columns are keys.

``pictures.svg`` says what the colours mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpt2viz.labels import signed
from gpt2viz.pictures.cells import decimals, shared_range, specials
from gpt2viz.pictures.palette import Palette, chessboard
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import (
    Place,
    color_axis,
    margins,
    markup,
    places,
    title,
    title_room,
)

_LEGEND = {
    "orientation": "h",
    "x": 1,
    "xanchor": "right",
    "y": 1,
    "yanchor": "top",
    "yref": "container",
}


def draw(picture: Heatmaps, colors: Palette) -> Figure:
    """Matrices side by side on one shared scale."""
    panels, legend = picture.panels, picture.legend
    n_columns = min(picture.n_columns, len(panels))
    low, high = shared_range(panels, picture.scale)
    if picture.ranged:
        ends = f"{signed(low, '.3g')} to {signed(high, '.3g')}"
        panels = [replace(one, title=f"{one.title} {ends}".lstrip()) for one in panels]
    written = f"%{{z:{'+' if picture.plus else ''}.{decimals(high)}f}}"
    layout: dict[str, Any] = {"shapes": [], "annotations": []}
    traces: list[dict[str, Any]] = []
    kinds: dict[str, str] = {}
    titles = title_room(panels) / picture.height if picture.ranges else 0
    grid = places(len(panels), n_columns, titles)
    for n, (panel, place) in enumerate(zip(panels, grid, strict=True)):
        on = str(n + 1) if n else ""  # Plotly calls the axes x, x2, x3, …
        fits = panel.values.shape[1] <= picture.numbers
        its = traces_of(panel, on, colors, written if fits else None, kinds)
        if picture.ranges:
            its[0] |= _own_scale(*picture.ranges[n], colors)
        empty = picture.lacks_numbers(panel)
        traces += its[:1] if empty else its
        layout |= _axes(panel, on, colors, place)
        layout["shapes"] += [] if empty else _frame(picture, panel, on, colors)
        layout["shapes"] += _groups(picture, on, colors)
        layout["annotations"] += [title(panel, place)] if panel.title or panel.part else []
        layout["annotations"] += [_nothing(panel, on)] if empty else []
    layout |= {
        "coloraxis": color_axis(picture.scale, low, high, picture.bar, colors),
        "height": picture.height,
        "margin": margins(panels, legend=legend, bar=bool(picture.bar)),
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": _LEGEND,
        "hoverlabel": {"align": "left"},
    }
    return Figure(data=traces + (_legend(kinds) if legend else []), layout=layout)


def _nothing(panel: Panel, on: str) -> dict[str, Any]:
    """What stands in a map without numbers."""
    n_rows, n_columns = panel.values.shape
    middle = {"x": (n_columns - 1) / 2, "y": (n_rows - 1) / 2, "xref": f"x{on}", "yref": f"y{on}"}
    text = markup(panel.masked_text)
    return middle | {"text": text, "showarrow": False, "font": {"size": 11}}


def _own_scale(low: float, high: float, colors: Palette) -> dict[str, Any]:
    """What a matrix has that shares its colours with no other."""
    ends = {"coloraxis": None, "zmin": low, "zmax": high}
    return ends | {"colorscale": colors.unit, "showscale": False}


def traces_of(
    panel: Panel, on: str, colors: Palette, written: str | None, kinds: dict[str, str]
) -> list[dict[str, Any]]:
    """The numbers as a trace, and those over it of the cells that have no colour on the scale.

    ``on`` are the axes; ``written`` is what stands in the cells, as Plotly's template. The names
    and colours of what is painted over the numbers are added to ``kinds``.
    """
    rows, columns = panel.rows, panel.columns
    sides = ((rows.title, "y"), (columns.title, "x"))
    where = "".join(f"{name} <b>%{{{letter}}}</b><br>".lstrip() for name, letter in sides)
    gap = int(written is not None or bool(panel.words))
    common = {
        "type": "heatmap",
        "x": columns.names(),
        "y": rows.names(),
        "xaxis": f"x{on}",
        "yaxis": f"y{on}",
        "name": panel.name,
        "meta": panel.name,
        "hoverongaps": False,
        "xgap": gap,
        "ygap": gap,
    }
    numbers = {
        "z": panel.values,
        "coloraxis": "coloraxis",
        "hovertemplate": f"{where}{panel.quantity} %{{z:.6g}}<extra></extra>",
        "texttemplate": written,
    }
    numbers |= _words(panel, where) if panel.words else {}
    special = [kind for kind in specials(panel, colors) if kind.cells.any()]
    kinds |= {kind.name: kind.color for kind in special}
    return [numbers | common] + [
        {
            "z": chessboard(cells),
            "zmin": 0,
            "zmax": 1,
            "colorscale": [(0, color), (1, other)],
            "showscale": False,
            "hovertemplate": f"{where}{text}<extra></extra>",
            # a plain sign as template would be written into the cells without a number too
            "text": None if written is None else np.where(cells, sign, ""),
            "texttemplate": None if written is None else "%{text}",
        }
        | common
        for _, color, other, cells, text, sign in special
    ]


def _words(panel: Panel, where: str) -> dict[str, Any]:
    """What stands in the cells in place of numbers, and what the pointer says of them."""
    return {
        "text": [[markup(word) for word in row] for row in panel.words],
        "texttemplate": "%{text}",
        "textfont": {"size": 11},
        "customdata": [[markup(said) for said in row] for row in panel.said],
        "hovertemplate": f"{where}%{{customdata}}<extra></extra>",
    }


def _axes(panel: Panel, on: str, colors: Palette, place: Place) -> dict[str, dict[str, Any]]:
    """Rows from the top, names on the left and below, square cells where tokens meet tokens."""
    n_rows, n_columns = panel.values.shape
    common = {
        "type": "category",  # else Plotly reads names such as "1 1" as the number 11
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "showline": True,
        "mirror": True,
        "linecolor": colors.grid,
        "constrain": "domain",
    }
    y = {"domain": place.y, "anchor": f"x{on}", "range": [n_rows - 0.5, -0.5]}
    x = {"domain": place.x, "anchor": f"y{on}", "range": [-0.5, n_columns - 0.5]}
    square = {"scaleanchor": f"y{on}"} if panel.of_pairs else {}
    return {
        f"yaxis{on}": common | _side(panel.rows, place.first) | y | {"constraintoward": "top"},
        f"xaxis{on}": common | _side(panel.columns, place.last) | x | square,
    }


def _side(axis: Axis, named: bool) -> dict[str, Any]:
    if not named:
        return {"showticklabels": False}
    return {"title": {"text": axis.title, "font": {"size": 11}}, **axis.ticks()}


def _frame(picture: Heatmaps, panel: Panel, on: str, colors: Palette) -> list[dict[str, Any]]:
    """A frame round the chosen row, the chosen column or, where both are chosen, their cell."""
    framed = picture.framed(panel)
    if framed is None:
        return []
    few = max(panel.values.shape) <= 2 * NUMBERS_FIT_LARGE  # else a thick line would hide one row
    return [rectangle(framed, on, colors.second, 2.5 if few else 1)]


def rectangle(
    cells: tuple[tuple[int, int], tuple[int, int]], on: str, color: str, width: float
) -> dict[str, Any]:
    """A line round cells, from the first to the last, down and across."""
    (top, bottom), (first, last) = cells
    ends = {"x0": first - 0.5, "x1": last + 0.5, "y0": top - 0.5, "y1": bottom + 0.5}
    line = {"color": color, "width": width}
    return {"type": "rect", "xref": f"x{on}", "yref": f"y{on}", "line": line, **ends}


def _groups(picture: Heatmaps, on: str, colors: Palette) -> list[dict[str, Any]]:
    """Frames round groups of cells, and lines from edge to edge between them."""
    framed = [rectangle(cells, on, colors.second, 2) for cells in picture.frames]
    ruled = [
        {
            "type": "line",
            "line": {"color": colors.ink, "width": 1},
            f"{along}ref": f"{along}{on} domain",
            f"{across}ref": f"{across}{on}",
            f"{along}0": 0,
            f"{along}1": 1,
            f"{across}0": after - 0.5,
            f"{across}1": after - 0.5,
        }
        for along, across, rules in (("x", "y", picture.rules[0]), ("y", "x", picture.rules[1]))
        for after in rules
    ]
    return framed + ruled


def _legend(kinds: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "type": "scatter",
            "x": [None],
            "y": [None],
            "mode": "markers",
            "marker": {"symbol": "square", "size": 12, "color": color},
            "name": name,
            "showlegend": True,
        }
        for name, color in kinds.items()
    ]
