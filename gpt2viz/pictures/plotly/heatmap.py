"""One matrix as a heatmap, or several on one scale: rows are queries, columns are keys.

The visual language, the same in every picture:

- ink is magnitude: zero has the background's colour, weights run over the fixed range [0, 1],
  signed numbers over a range symmetric about 0;
- a masked cell, NaN and infinity are no colours of the scale: each has its own, named in the
  legend, and masked cells a chessboard's pattern too;
- the first token is at the top left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from gpt2viz.pictures.grid import Place, margins, places, title
from gpt2viz.pictures.palette import Palette, chessboard
from gpt2viz.pictures.panel import Axis, Mask, Panel
from gpt2viz.pictures.scales import color_axis, decimals, shared_range
from gpt2viz.run.stages import Scale

#: Up to this many columns the number stands in the cell, where pictures stand side by side.
NUMBERS_FIT = 6
#: The same for a large picture.
NUMBERS_FIT_LARGE = 10


_LEGEND = {
    "orientation": "h",
    "x": 1,
    "xanchor": "right",
    "y": 1,
    "yanchor": "top",
    "yref": "container",
}


def heatmaps(
    panels: Sequence[Panel],
    colors: Palette,
    *,
    scale: Scale = "unit",
    n_columns: int = 1,
    height: int = 420,
    row: int | None = None,
    column: int | None = None,
    numbers: int = NUMBERS_FIT,
    bar: str = "",
    legend: bool = True,
) -> go.Figure:
    """Draw matrices side by side on one shared scale.

    ``row`` and ``column`` frame a query and a key in every panel. Up to ``numbers`` columns
    the values stand in the cells. ``bar`` is the title of the colour bar; empty leaves it out.
    ``legend`` names the colours that are not on the scale.
    """
    n_columns = min(n_columns, len(panels))
    low, high = shared_range(panels, scale)
    written = f"%{{z:.{decimals(high)}f}}"
    layout: dict[str, Any] = {"shapes": [], "annotations": []}
    traces: list[dict[str, Any]] = []
    kinds: dict[str, str] = {}
    for n, (panel, place) in enumerate(zip(panels, places(len(panels), n_columns), strict=True)):
        on = str(n + 1) if n else ""  # Plotly calls the axes x, x2, x3, …
        fits = panel.values.shape[1] <= numbers
        traces += _traces(panel, on, colors, written if fits else None, kinds)
        layout |= _axes(panel, on, colors, place)
        layout["shapes"] += _frame(panel, on, colors, row, column)
        layout["annotations"] += [title(panel, place)] if panel.title or panel.part else []
    layout |= {
        "coloraxis": color_axis(scale, low, high, bar, colors),
        "height": height,
        "margin": margins(panels, legend=legend, bar=bool(bar)),
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": _LEGEND,
        "hoverlabel": {"align": "left"},
    }
    return go.Figure(data=traces + (_legend(kinds) if legend else []), layout=layout)


def _traces(
    panel: Panel, on: str, colors: Palette, written: str | None, kinds: dict[str, str]
) -> list[dict[str, Any]]:
    """The numbers, and over them the cells that have no colour on the scale."""
    rows, columns = panel.rows, panel.columns
    where = f"{rows.title} <b>%{{y}}</b><br>{columns.title} <b>%{{x}}</b><br>"
    gap = 0 if written is None else 1
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


class Special(NamedTuple):
    """Cells whose colour is not on the scale, and what legend and pointer say of them.

    The ``other`` colour takes turns with the first, which the legend shows. The sign stands in
    the cell where others have their number, so that colour isn't all there is.
    """

    name: str
    color: str
    other: str
    cells: Mask
    text: str
    sign: str


def specials(panel: Panel, colors: Palette) -> tuple[Special, Special, Special]:
    """The masked, the NaN and the infinite cells of a panel; a later kind is drawn over others."""
    values = panel.values
    masked = np.zeros(values.shape, bool) if panel.masked is None else panel.masked
    infinite = np.isinf(values) & ~masked
    nan = "NaN: not a number"
    return (
        Special(
            panel.masked_name, colors.masked, colors.masked_other, masked, panel.masked_text, "×"
        ),
        Special(nan, colors.nan, colors.nan, np.isnan(values), nan, "NaN"),
        Special("infinite", colors.infinite, colors.infinite, infinite, "infinite", "∞"),
    )


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
    square = {"scaleanchor": f"y{on}"} if panel.columns.title in ("key", "position") else {}
    return {
        f"yaxis{on}": common | _side(panel.rows, place.first) | y | {"constraintoward": "top"},
        f"xaxis{on}": common | _side(panel.columns, place.last) | x | square,
    }


def _side(axis: Axis, named: bool) -> dict[str, Any]:
    if not named:
        return {"showticklabels": False}
    return {"title": {"text": axis.title, "font": {"size": 11}}, **axis.ticks()}


def _frame(
    panel: Panel, on: str, colors: Palette, row: int | None, column: int | None
) -> list[dict[str, Any]]:
    """A frame round the chosen row, the chosen column or, where both are chosen, their cell."""
    if row is None and column is None:
        return []
    n_rows, n_columns = panel.values.shape
    x, y = (-0.5, n_columns - 0.5), (-0.5, n_rows - 0.5)
    if column is not None:
        across = panel.columns.place(column)
        if across is None:  # it lies outside the part that is shown
            return []
        x = (across - 0.5, across + 0.5)
    if row is not None:
        down = panel.rows.place(row)
        if down is None:
            return []
        y = (down - 0.5, down + 0.5)
    few = max(n_rows, n_columns) <= 2 * NUMBERS_FIT_LARGE  # a thick line would hide one row of many
    line = {"color": colors.second, "width": 2.5 if few else 1}
    ends = {"x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1]}
    return [{"type": "rect", "xref": f"x{on}", "yref": f"y{on}", "line": line, **ends}]


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
