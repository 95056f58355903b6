"""Matrices as Plotly figures: rows are queries, columns are keys.

``pictures.svg`` explains the colours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gpt2viz.labels import markup_safe
from gpt2viz.pictures.cells import decimals, shared_range, specials
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.palette import Palette, chessboard
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import Cells

_LEGEND = {
    "orientation": "h",
    "x": 1,
    "xanchor": "right",
    "y": 1,
    "yref": "container",
    "yanchor": "top",
}
#: The look of an axis of names; Plotly would read a name such as "1 1" as the number 11.
_NAMES = {"type": "category", "showgrid": False, "zeroline": False, "constrain": "domain"}


def draw_heatmaps(picture: Heatmaps, colors: Palette) -> go.Figure:
    """Matrices side by side on one shared scale, with rules but without frames."""
    panels = picture.panels
    n_columns = min(picture.n_columns, len(panels))
    n_rows = -(-len(panels) // n_columns)
    low, high = shared_range(panels, picture.scale)
    written = f"%{{z:{'+' if picture.plus else ''}.{decimals(high)}f}}"
    figure = make_subplots(
        n_rows,
        n_columns,
        subplot_titles=[markup_safe(panel.title) for panel in panels],
        horizontal_spacing=0.16 / n_columns,
        vertical_spacing=min(0.13, 0.26 / n_rows),
    )
    kinds: dict[str, str] = {}
    for n, panel in enumerate(panels):
        down, across = divmod(n, n_columns)
        at = {"row": down + 1, "col": across + 1}
        fits = panel.values.shape[1] <= picture.numbers
        for trace in _traces(panel, colors, written if fits else None, kinds):
            figure.add_trace(trace, **at)
        square = {"scaleanchor": figure.data[-1].yaxis} if panel.of_pairs else {}
        figure.update_xaxes(_side(panel.columns, n + n_columns >= len(panels)) | square, **at)
        figure.update_yaxes(_side(panel.rows, across == 0), autorange="reversed", **at)
        for after in picture.rules[0]:
            figure.add_hline(after - 0.5, line={"color": colors.ink, "width": 1}, **at)
        for after in picture.rules[1]:
            figure.add_vline(after - 0.5, line={"color": colors.ink, "width": 1}, **at)
    figure.add_traces(_legend(kinds) if picture.legend else [])
    return figure.update_layout(
        coloraxis=_color_axis(picture, low, high, colors),
        height=picture.height,
        margin={"l": 8, "r": 8, "b": 8, "t": 60},
        legend=_LEGEND,
    )


def _color_axis(picture: Heatmaps, low: float, high: float, colors: Palette) -> dict[str, Any]:
    """The scale from ``low`` to ``high``, and its bar if the picture names one."""
    return {
        "cmin": low,
        "cmax": high,
        "colorscale": colors.signed if picture.scale == "signed" else colors.unit,
        "showscale": bool(picture.bar),
        "colorbar": {
            "title": {"text": picture.bar, "side": "right"},
            "tickvals": [low, (low + high) / 2, high],
            "tickformat": ".3~g",
            "thickness": 10,
            "len": 200,
            "lenmode": "pixels",
            "y": 1,
            "yanchor": "top",
        },
    }


def _side(axis: Axis, named: bool) -> dict[str, Any]:
    """The look of an axis that is ``named``, or has its names at a neighbour."""
    names = {"title": axis.title, **axis.ticks()} if named else {"showticklabels": False}
    return _NAMES | {"showline": True, "mirror": True} | names


def _traces(
    panel: Panel, colors: Palette, written: str | None, kinds: dict[str, str]
) -> list[dict[str, Any]]:
    """A trace of the numbers, and traces over it of the cells without a colour on the scale.

    ``written`` is Plotly's template for the text in the cells. The names and colours of these
    special cells are added to ``kinds``.
    """
    rows, columns = panel.rows, panel.columns
    sides = ((rows.title, "y"), (columns.title, "x"))
    where = "".join(f"{name} <b>%{{{letter}}}</b><br>".lstrip() for name, letter in sides)
    gap = int(written is not None)
    common = {
        "type": "heatmap",
        "x": columns.names(),
        "y": rows.names(),
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


def draw_thumbnails(picture: Thumbnails, colors: Palette) -> go.Figure:
    """Layers down, heads across, as one matrix.

    The pointer shows layer, head and the largest weight of the block under it.
    """
    n_layer, n_head, side = picture.tiles.shape[:3]
    step = side + max(1, side // 8)  # cells from one thumbnail to the next
    cells = _lay_out(picture.tiles, step)
    panel = Panel(
        "",
        cells,
        Axis("", _names("layer", n_layer, step, picture.axes[0]), numbered=False),
        Axis("", _names("head", n_head, step, picture.axes[1]), numbered=False),
        quantity="weight",
        masked=_lay_out(np.broadcast_to(picture.hidden, picture.tiles.shape), step),
        masked_text="masked: exactly 0",
    )
    height = min(760, 70 + 130 * n_layer)
    figure = draw_heatmaps(
        Heatmaps(picture.what, [panel], height=height, numbers=0, legend=False), colors
    )
    figure.data[0].z = np.where(_lay_out(np.ones_like(picture.tiles), step), cells, np.nan)
    figure.update_xaxes(_numbers("head", n_head, side, step), side="top")
    figure.update_yaxes(_numbers("layer", n_layer, side, step), scaleanchor="x")
    return figure


def _lay_out(tiles: Cells, step: int) -> Cells:
    """(n_layer, nh, side, side) -> one matrix of tiles ``step`` cells apart, 0 between them."""
    n_layer, n_head, side, _ = tiles.shape
    canvas = np.zeros((n_layer, step, n_head, step), tiles.dtype)
    canvas[:, :side, :, :side] = tiles.swapaxes(1, 2)
    return canvas.reshape(n_layer * step, n_head * step)


def _numbers(title: str, count: int, side: int, step: int) -> dict[str, Any]:
    """The axis of layers or heads."""
    middles = [n * step + (side - 1) / 2 for n in range(count)]
    return {"title": title, "tickvals": middles, "ticktext": [*range(count)], "showline": False}


def _names(part: str, count: int, step: int, axis: Axis) -> list[str]:
    """The pointer's names for every row or column, which saves a text for every cell."""
    ends = [f"{axis.title} {name}" for name in axis.plain_names()]
    ends += [f"gap {n}" for n in range(step - len(ends))]
    return [f"{part} {n} · {end}" for n in range(count) for end in ends]
