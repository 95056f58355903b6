"""Matrices as Plotly's JSON: rows are queries, columns are keys.

``pictures.svg`` explains the colours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpt2viz.arrays import Array
from gpt2viz.labels import markup_safe
from gpt2viz.pictures.cells import decimals, shared_range, specials
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.palette import ColorScale, Palette, chessboard
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.run.stages import Scale

#: A legend in one line over the picture, from its left edge.
LEGEND_ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}

#: The width of a character at the size of the axes' names, in pixels; a wide one's is double.
_CHARACTER = 6.3
#: A title of an axis, with the gap to the names.
_TITLE = 26
#: A colour bar with its numbers and title.
_BAR = 86
#: How far a short label at the right end of the lower axis may stick out.
_LEANS_OUT = 14


class Box(NamedTuple):
    """The box of one of several pictures, in shares of the width and the height, from below."""

    x: tuple[float, float]
    y: tuple[float, float]
    first: bool  # in its row
    last: bool  # in its column


def boxes(n_panels: int, n_columns: int) -> list[Box]:
    """Lay out boxes row by row, from the top left."""
    n_rows = -(-n_panels // n_columns)
    between, gap = 0.16 / n_columns, min(0.13, 0.26 / n_rows)
    width, height = (1 - between * (n_columns - 1)) / n_columns, (1 - gap * (n_rows - 1)) / n_rows
    result = []
    for n in range(n_panels):
        row, column = divmod(n, n_columns)
        left, top = column * (width + between), 1 - row * (height + gap)
        result.append(
            Box(
                (left, min(1.0, left + width)),
                (max(0.0, top - height), top),
                first=column == 0,
                last=n + n_columns >= n_panels,
            )
        )
    return result


def title(panel: Panel, box: Box) -> dict[str, Any]:
    """A matrix's title, centred above its box, with the part that is shown below it."""
    part = "" if panel.part is None else str(panel.part)
    return heading("\n".join(filter(None, [panel.title, part])), box)


def heading(text: str, box: Box) -> dict[str, Any]:
    """Plain text centred above a box."""
    return {
        "text": markup(text),
        "font": {"size": 13},
        "showarrow": False,
        "x": sum(box.x) / 2,
        "xref": "paper",
        "xanchor": "center",
        "y": box.y[1],
        "yref": "paper",
        "yanchor": "bottom",
    }


def markup(text: str) -> str:
    """Plain text for Plotly, with line breaks as tags."""
    return markup_safe(text).replace("\n", "<br>")


def margins(panels: Sequence[Panel], *, legend: bool, bar: bool) -> dict[str, Any]:
    """Margins around the pictures, from the longest names.

    Plotly can compute them itself (``automargin``), but then draws everything twice: 0.16 s instead
    of 0.04 s for twelve heads.
    """
    titles = max(20 * len(p.title.splitlines()) + 2 + 16 * bool(p.part) for p in panels)
    return {
        "l": _longest(panel.rows for panel in panels) + _TITLE,
        "r": _BAR if bar else _LEANS_OUT,
        "t": 8 + 24 * legend + titles,
        "b": _longest(panel.columns for panel in panels) + _TITLE,  # names may stand upright
        "pad": 0,
        "autoexpand": False,
    }


def _longest(axes: Iterable[Axis]) -> int:
    return int(max(pixels(axis.longest()) for axis in axes))


def pixels(name: str) -> float:
    """The approximate width of a name at an axis."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in name)
    return _CHARACTER * (len(name) + wide)


def color_axis(
    scale: Scale, low: float, high: float, title: str, colors: Palette
) -> dict[str, object]:
    """Plotly's colour axis over ``low`` … ``high``; an empty ``title`` leaves its bar out."""
    values = [low, (low + high) / 2, high]
    return {
        "cmin": low,
        "cmax": high,
        "colorscale": colors.signed if scale == "signed" else colors.unit,
        "showscale": bool(title),
        "colorbar": {
            "title": {"text": title, "side": "right", "font": {"size": 13}},
            "tickfont": {"size": 12},
            "thickness": 10,
            "len": 200,
            "lenmode": "pixels",
            "y": 1,
            "yanchor": "top",
            "tickvals": values,
            "ticktext": [f"{value:.3g}" for value in values],
            "outlinewidth": 0,
            "x": 1,  # in pixels from there: a share of a wide picture would leave the margin
            "xpad": 16,
        },
    }


_LEGEND = {
    "orientation": "h",
    "x": 1,
    "xanchor": "right",
    "y": 1,
    "yanchor": "top",
    "yref": "container",
}


def draw_heatmaps(picture: Heatmaps, colors: Palette) -> dict[str, Any]:
    """Matrices side by side on one shared scale."""
    panels, legend = picture.panels, picture.legend
    n_columns = min(picture.n_columns, len(panels))
    low, high = shared_range(panels, picture.scale)
    written = f"%{{z:{'+' if picture.plus else ''}.{decimals(high)}f}}"
    layout: dict[str, Any] = {"shapes": [], "annotations": []}
    traces: list[dict[str, Any]] = []
    kinds: dict[str, str] = {}
    for n, (panel, box) in enumerate(zip(panels, boxes(len(panels), n_columns), strict=True)):
        on = str(n + 1) if n else ""  # Plotly calls the axes x, x2, x3, …
        fits = panel.values.shape[1] <= picture.numbers
        traces += traces_of(panel, on, colors, written if fits else None, kinds)
        layout |= _axes(panel, on, colors, box)
        layout["shapes"] += _frame(picture, panel, on, colors) + _groups(picture, on, colors)
        layout["annotations"] += [title(panel, box)] if panel.title or panel.part else []
    layout |= {
        "coloraxis": color_axis(picture.scale, low, high, picture.bar, colors),
        "height": picture.height,
        "margin": margins(panels, legend=legend, bar=bool(picture.bar)),
        "legend": _LEGEND,
    }
    return {"data": traces + (_legend(kinds) if legend else []), "layout": layout}


def traces_of(
    panel: Panel, on: str, colors: Palette, written: str | None, kinds: dict[str, str]
) -> list[dict[str, Any]]:
    """A trace of the numbers, and traces over it of the cells without a colour on the scale.

    ``on`` are the axes; ``written`` is Plotly's template for the text in the cells. The names
    and colours of these special cells are added to ``kinds``.
    """
    rows, columns = panel.rows, panel.columns
    sides = ((rows.title, "y"), (columns.title, "x"))
    where = "".join(f"{name} <b>%{{{letter}}}</b><br>".lstrip() for name, letter in sides)
    gap = int(written is not None)
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


def _axes(panel: Panel, on: str, colors: Palette, box: Box) -> dict[str, dict[str, Any]]:
    """Rows from the top, names on the left and below, square cells between tokens."""
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
    y = {"domain": box.y, "anchor": f"x{on}", "range": [n_rows - 0.5, -0.5]}
    x = {"domain": box.x, "anchor": f"y{on}", "range": [-0.5, n_columns - 0.5]}
    square = {"scaleanchor": f"y{on}"} if panel.of_pairs else {}
    return {
        f"yaxis{on}": common | _side(panel.rows, box.first) | y | {"constraintoward": "top"},
        f"xaxis{on}": common | _side(panel.columns, box.last) | x | square,
    }


def _side(axis: Axis, named: bool) -> dict[str, Any]:
    if not named:
        return {"showticklabels": False}
    return {"title": {"text": axis.title, "font": {"size": 11}}, **axis.ticks()}


def _frame(picture: Heatmaps, panel: Panel, on: str, colors: Palette) -> list[dict[str, Any]]:
    """A frame around the chosen row, the chosen column or, if both are chosen, their cell."""
    framed = picture.frame(panel)
    if framed is None:
        return []
    few = max(panel.values.shape) <= 2 * NUMBERS_FIT_LARGE  # else a thick line would hide one row
    return [rectangle(framed, on, colors.second, 2.5 if few else 1)]


def rectangle(
    cells: tuple[tuple[int, int], tuple[int, int]], on: str, color: str, width: float
) -> dict[str, Any]:
    """A line around cells, from the first to the last, down and across."""
    (top, bottom), (first, last) = cells
    ends = {"x0": first - 0.5, "x1": last + 0.5, "y0": top - 0.5, "y1": bottom + 0.5}
    line = {"color": color, "width": width}
    return {"type": "rect", "xref": f"x{on}", "yref": f"y{on}", "line": line, **ends}


def _groups(picture: Heatmaps, on: str, colors: Palette) -> list[dict[str, Any]]:
    """Frames around groups of cells, and lines from edge to edge between them."""
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


def draw_thumbnails(picture: Thumbnails, colors: Palette) -> dict[str, Any]:
    """Layers down, heads across.

    The pointer shows layer, head and the largest weight of the block under it.
    """
    tiles, hidden = picture.tiles, picture.hidden
    n_layer, n_head, side = tiles.shape[:3]
    step = side + max(1, side // 8)  # cells from one thumbnail to the next
    shade = [(0.0, colors.masked), (1.0, colors.masked_other)]
    every = np.broadcast_to(chessboard(hidden), tiles.shape)
    names = {
        "x": _names("head", n_head, step, picture.axes[1]),
        "y": _names("layer", n_layer, step, picture.axes[0]),
    }
    traces = [
        _thumbnails(_lay_out(tiles, step), names, colors.unit, "weight %{z:.4f}"),
        _thumbnails(_lay_out(every, step), names, shade, "masked: exactly 0"),
    ]
    if (lost := np.isnan(tiles)).any():
        pink = [(0.0, colors.nan), (1.0, colors.nan)]
        shown = np.where(lost & ~hidden, np.float32(1), np.float32("nan"))
        traces.append(_thumbnails(_lay_out(shown, step), names, pink, "NaN: not a number"))
    layout = {
        "height": min(760, 70 + 130 * n_layer),
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": _number_axis("head", n_head, side, step) | {"side": "top"},
        "yaxis": _number_axis("layer", n_layer, side, step)
        | {"autorange": "reversed", "scaleanchor": "x"},
    }
    return {"data": traces, "layout": layout}


def _lay_out(tiles: Array, step: int) -> Array:
    """(n_layer, nh, side, side) -> one matrix of tiles ``step`` cells apart, NaN between them."""
    n_layer, n_head, side, _ = tiles.shape
    canvas: Array = np.full((n_layer, step, n_head, step), np.nan, np.float32)
    canvas[:, :side, :, :side] = tiles.swapaxes(1, 2)
    return canvas.reshape(n_layer * step, n_head * step)


def _names(part: str, count: int, step: int, axis: Axis) -> list[str]:
    """The pointer's names for every row or column, which saves a text for every cell."""
    ends = [f"{axis.title} {name}" for name in axis.names()]
    ends += [f"gap {n}" for n in range(step - len(ends))]
    return [f"{part} {n} · {end}" for n in range(count) for end in ends]


def _thumbnails(
    values: Array, names: Mapping[str, Sequence[str]], scale: ColorScale, hover: str
) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "z": values,
        "zmin": 0,
        "zmax": 1,
        "colorscale": scale,
        "showscale": False,
        "hoverongaps": False,
        "hovertemplate": f"%{{y}}<br>%{{x}}<br>{hover}<extra></extra>",
        "meta": "overview",
        **names,
    }


def _number_axis(title: str, count: int, side: int, step: int) -> dict[str, object]:
    return {
        "type": "category",
        "title": {"text": title, "font": {"size": 11}},
        "tickvals": [n * step + (side - 1) / 2 for n in range(count)],
        "ticktext": [str(n) for n in range(count)],
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "constrain": "domain",
    }
