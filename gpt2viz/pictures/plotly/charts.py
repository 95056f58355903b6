"""The pictures that are no single matrix: the overview of all heads and the next-token bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from gpt2viz.arrays import Array
from gpt2viz.labels import markup_safe, shorten
from gpt2viz.pictures.grid import LEGEND_ABOVE
from gpt2viz.pictures.palette import FILLS, ColorScale, Palette, chessboard, filled
from gpt2viz.pictures.panel import Mask
from gpt2viz.pictures.pooling import block_starts, pool_by_maximum

#: Cells along one side of a thumbnail; a longer sentence is pooled to this many.
THUMBNAIL = 40


def _layout(n_tokens: int) -> tuple[int, int]:
    """(cells along a thumbnail, cells from one thumbnail to the next)."""
    side = min(n_tokens, THUMBNAIL)
    return side, side + max(1, side // 8)


def thumbnail_at(row: int, column: int, n_tokens: int) -> tuple[int, int]:
    """(layer, head) of the thumbnail at a cell of ``overview``."""
    _, step = _layout(n_tokens)
    return row // step, column // step


def thumbnails(layers: Iterable[Array]) -> Array:
    """Every head of every layer, (nh, T, T) each, shrunk: (n_layer, nh, side, side)."""
    return np.stack([[pool_by_maximum(head, THUMBNAIL) for head in layer] for layer in layers])


def overview(tiles: Array, masked: Mask, colors: Palette) -> go.Figure:
    """Every head of every layer as a thumbnail: layers down, heads across.

    ``tiles`` are ``thumbnails`` of weights, ``masked`` (T, T) is what the mask forbids. One
    heatmap of tiles, not nh × L charts; the pointer shows layer, head and the largest weight of
    the block under it.
    """
    n_layer, n_head, side = tiles.shape[:3]
    T = len(masked)
    _, step = _layout(T)
    seen = pool_by_maximum((~masked).astype(np.float32), THUMBNAIL) > 0
    hidden = chessboard(~seen)
    figure = go.Figure()
    shade = [(0.0, colors.masked), (1.0, colors.masked_other)]
    every = np.broadcast_to(hidden, tiles.shape)
    starts = block_starts(T, THUMBNAIL)
    names = {
        "x": _names("head", "key", n_head, step, starts),
        "y": _names("layer", "query", n_layer, step, starts),
    }
    _add(figure, _laid_out(tiles, step), names, colors.unit, "weight %{z:.4f}")
    _add(figure, _laid_out(every, step), names, shade, "masked: exactly 0")
    if (lost := np.isnan(tiles)).any():
        pink = [(0.0, colors.nan), (1.0, colors.nan)]
        shown = np.where(lost & seen, np.float32(1), np.float32("nan"))
        _add(figure, _laid_out(shown, step), names, pink, "NaN: not a number")
    corners = [(x * step, y * step) for y in range(n_layer) for x in range(n_head)]
    figure.update_layout(
        shapes=[_outline(x, y, side, colors) for x, y in corners],
        height=min(760, 70 + 130 * n_layer),
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis=_numbered("head", n_head, side, step) | {"side": "top"},
        yaxis=_numbered("layer", n_layer, side, step)
        | {"autorange": "reversed", "scaleanchor": "x"},
    )
    return figure


def _laid_out(tiles: Array, step: int) -> Array:
    """(n_layer, nh, side, side) -> one matrix of tiles ``step`` cells apart, NaN between them."""
    n_layer, n_head, side, _ = tiles.shape
    canvas: Array = np.full((n_layer, step, n_head, step), np.nan, np.float32)
    canvas[:, :side, :, :side] = tiles.swapaxes(1, 2)
    return canvas.reshape(n_layer * step, n_head * step)


def _names(part: str, axis: str, count: int, step: int, starts: Sequence[int]) -> list[str]:
    """What the pointer says of every row or column, in place of a text for every cell."""
    ends = [f"{axis} {start}" for start in starts]
    ends += [f"gap {n}" for n in range(step - len(ends))]
    return [f"{part} {n} · {end}" for n in range(count) for end in ends]


def _add(
    figure: go.Figure,
    values: Array,
    names: Mapping[str, Sequence[str]],
    scale: ColorScale,
    hover: str,
) -> None:
    figure.add_trace(
        go.Heatmap(
            z=values,
            zmin=0,
            zmax=1,
            colorscale=scale,
            showscale=False,
            hoverongaps=False,
            hovertemplate=f"%{{y}}<br>%{{x}}<br>{hover}<extra></extra>",
            meta="overview",
            **names,
        )
    )


def _numbered(title: str, count: int, side: int, step: int) -> dict[str, object]:
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


def _outline(x: int, y: int, side: int, colors: Palette) -> dict[str, object]:
    return {
        "type": "rect",
        "x0": x - 0.5,
        "x1": x + side - 0.5,
        "y0": y - 0.5,
        "y1": y + side - 0.5,
        "line": {"color": colors.grid, "width": 1},
    }


def probability_bars(
    tokens: Sequence[str],
    cases: Mapping[str, Sequence[float]],
    colors: Palette,
    *,
    rest: bool = False,
) -> go.Figure:
    """Next-token probabilities in percent, one bar a token or a pair to compare two ``cases``.

    ``rest`` says that the last one stands for many tokens together; it is hatched the other way.
    """
    places = list(range(len(tokens)))
    figure = go.Figure()
    looks = zip(colors.cases(len(cases)), FILLS, strict=False)
    for (name, values), (color, fill) in zip(cases.items(), looks, strict=False):
        figure.add_trace(
            go.Bar(
                x=list(values),
                y=places,
                name=name,
                orientation="h",
                marker=filled(color, [fill] * (len(places) - rest) + ["/"] * rest),
                text=[f"{value:.2f} %" for value in values],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{y}: %{x:.4f} %<extra>" + name + "</extra>",
            )
        )
    figure.update_yaxes(
        tickvals=places,
        ticktext=[markup_safe(shorten(token, 26)) for token in tokens],
        autorange="reversed",
        automargin=True,
    )
    figure.update_xaxes(
        title={"text": "probability (%), softmax over the whole vocabulary"}, rangemode="tozero"
    )
    figure.update_layout(
        barmode="group",
        height=90 + (44 if len(cases) > 1 else 26) * len(tokens),
        showlegend=True,
        margin={"l": 8, "r": 56, "t": 30, "b": 8},
        legend=LEGEND_ABOVE,
        bargap=0.25,
    )
    return figure
