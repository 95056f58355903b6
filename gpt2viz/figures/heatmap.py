"""One matrix as a heatmap, or several on one scale: rows are queries, columns are keys.

The visual language, the same in every picture:

- ink is magnitude: zero has the background's colour, weights run over the fixed range [0, 1],
  signed numbers over a range symmetric about 0;
- a masked cell, NaN and infinity are no colours of the scale: each has its own, named in the
  legend;
- the first token is at the top left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gpt2viz.figures.palette import Palette
from gpt2viz.figures.panel import Mask, Panel
from gpt2viz.figures.scales import color_axis, number_format, shared_range
from gpt2viz.stages import Scale

#: Up to this many columns the number stands in the cell.
NUMBERS_FIT = 10


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
    numbers: bool = True,
    bar: str = "",
    legend: bool = True,
) -> go.Figure:
    """Draw matrices side by side on one shared scale.

    ``row`` and ``column`` frame a query and a key in every panel. ``numbers`` writes the values
    into the cells where they fit. ``bar`` is the title of the colour bar; empty leaves it out.
    ``legend`` names the colours that are not on the scale.
    """
    n_columns = min(n_columns, len(panels))
    n_rows = -(-len(panels) // n_columns)
    figure = make_subplots(
        rows=n_rows,
        cols=n_columns,
        subplot_titles=[panel.title for panel in panels],
        horizontal_spacing=0.16 / n_columns,
        vertical_spacing=min(0.13, 0.26 / n_rows),
    )
    low, high = shared_range(panels, scale)
    kinds: dict[str, str] = {}
    written = number_format(high) if numbers else ""
    for n, panel in enumerate(panels):
        place = {"row": n // n_columns + 1, "col": n % n_columns + 1}
        last = n + n_columns >= len(panels)
        _draw(figure, panel, place, colors, written, kinds)
        _axes(figure, panel, place, colors, first=place["col"] == 1, last=last)
        _frame(figure, panel, place, row, column, colors)
    if legend:
        _legend(figure, kinds)
    figure.update_layout(
        coloraxis=color_axis(scale, low, high, bar, colors),
        height=height,
        margin={"l": 8, "r": 8, "t": _top_margin(panels, legend), "b": 8, "pad": 0},
        plot_bgcolor="rgba(0,0,0,0)",
        legend=_LEGEND,
        hoverlabel={"align": "left"},
    )
    figure.update_annotations(font_size=13)
    return figure


def _top_margin(panels: Sequence[Panel], legend: bool) -> int:
    return 8 + 22 * any(panel.title for panel in panels) + 24 * legend


def _draw(
    figure: go.Figure,
    panel: Panel,
    place: dict[str, int],
    colors: Palette,
    written: str,
    kinds: dict[str, str],
) -> None:
    rows, columns = panel.rows, panel.columns
    where = f"{rows.title} <b>%{{y}}</b><br>{columns.title} <b>%{{x}}</b><br>"
    fits = bool(written) and panel.values.shape[1] <= NUMBERS_FIT
    common = {
        "x": columns.names(),
        "y": rows.names(),
        "name": panel.name,
        "meta": panel.name,
        "hoverongaps": False,
        "xgap": int(fits),
        "ygap": int(fits),
    }
    figure.add_trace(
        go.Heatmap(
            z=panel.values,
            coloraxis="coloraxis",
            hovertemplate=f"{where}{panel.quantity} %{{z:.6g}}<extra></extra>",
            texttemplate=written if fits else None,
            **common,
        ),
        **place,
    )
    for legend, color, cells, text in _special(panel, colors):
        kinds[legend] = color
        figure.add_trace(
            go.Heatmap(
                z=np.where(cells, np.float32(1), np.float32("nan")),
                colorscale=[(0, color), (1, color)],
                showscale=False,
                hovertemplate=f"{where}{text}<extra></extra>",
                **common,
            ),
            **place,
        )


def _special(panel: Panel, colors: Palette) -> list[tuple[str, str, Mask, str]]:
    """(legend, colour, cells, hover) for the cells whose colour is not on the scale."""
    values = panel.values
    masked = np.zeros(values.shape, bool) if panel.masked is None else panel.masked
    kinds = [
        ("masked (a later key)", colors.masked, masked, panel.masked_text),
        ("NaN: not a number", colors.nan, np.isnan(values), "NaN: not a number"),
        ("infinite", colors.infinite, np.isinf(values) & ~masked, "%{z} infinite"),
    ]
    return [kind for kind in kinds if kind[2].any()]


def _axes(
    figure: go.Figure,
    panel: Panel,
    place: dict[str, int],
    colors: Palette,
    *,
    first: bool,
    last: bool,
) -> None:
    n_rows, n_keys = panel.values.shape
    square = panel.columns.labels == panel.rows.labels
    common = {
        "type": "category",  # else Plotly reads names such as "1 1" as the number 11
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
        "ticks": "",
        "showline": True,
        "mirror": True,
        "linecolor": colors.grid,
        "constrain": "domain",
    }
    figure.update_yaxes(
        **common,
        **(panel.rows.ticks() if first else {"showticklabels": False}),
        title={"text": panel.rows.title if first else "", "font": {"size": 11}},
        range=[n_rows - 0.5, -0.5],
        constraintoward="top",
        **place,
    )
    figure.update_xaxes(
        **common,
        **(panel.columns.ticks() if last else {"showticklabels": False}),
        title={"text": panel.columns.title if last else "", "font": {"size": 11}},
        range=[-0.5, n_keys - 0.5],
        **place,
    )
    if square:
        anchor = next(figure.select_yaxes(**place)).plotly_name.replace("axis", "")
        figure.update_xaxes(scaleanchor=anchor, **place)


def _frame(
    figure: go.Figure,
    panel: Panel,
    place: dict[str, int],
    row: int | None,
    column: int | None,
    colors: Palette,
) -> None:
    """A frame round the chosen row, the chosen column or, where both are chosen, their cell."""
    n_rows, n_keys = panel.values.shape
    if row is None and column is None:
        return
    x, y = (-0.5, n_keys - 0.5), (-0.5, n_rows - 0.5)
    if column is not None:
        column = panel.columns.place(column)
        x = (column - 0.5, column + 0.5)
    if row is not None:
        row = panel.rows.place(row)
        y = (row - 0.5, row + 0.5)
    few = max(n_rows, n_keys) <= 2 * NUMBERS_FIT  # among many cells a thick line hides the row
    line = {"color": colors.second, "width": 2.5 if few else 1}
    figure.add_shape(type="rect", x0=x[0], x1=x[1], y0=y[0], y1=y[1], line=line, **place)


def _legend(figure: go.Figure, kinds: dict[str, str]) -> None:
    for name, color in kinds.items():
        marker = {"symbol": "square", "size": 12, "color": color}
        figure.add_trace(
            go.Scatter(
                x=[None], y=[None], mode="markers", marker=marker, name=name, showlegend=True
            )
        )
