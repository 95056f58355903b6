"""The pictures that are no single matrix: the overview of all heads and the next-token bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from gpt2viz.figures.palette import ColorScale, Palette
from gpt2viz.figures.panel import Mask, Matrix
from gpt2viz.figures.pooling import pool_by_maximum
from gpt2viz.labels import markup_safe, shorten

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


def overview(weights: Sequence[NDArray[np.float32]], masked: Mask, colors: Palette) -> go.Figure:
    """Every head of every layer as a thumbnail: layers down, heads across.

    ``weights`` holds one array (nh, T, T) a layer, ``masked`` (T, T) what the mask forbids. One
    heatmap of tiles, not nh × L charts; the pointer shows layer, head and the largest weight of
    the block under it.
    """
    n_layer, n_head, T = len(weights), *weights[0].shape[:2]
    side, step = _layout(T)
    size = (n_layer * step, n_head * step)
    canvas, hidden = np.full(size, np.nan, np.float32), np.full(size, np.nan, np.float32)
    seen = pool_by_maximum((~masked).astype(np.float32), THUMBNAIL) > 0
    names = np.empty(size, object)
    for layer in range(n_layer):
        for head in range(n_head):
            y, x = layer * step, head * step
            canvas[y : y + side, x : x + side] = pool_by_maximum(weights[layer][head], THUMBNAIL)
            hidden[y : y + side, x : x + side] = np.where(seen, np.nan, 1)
            names[y : y + step, x : x + step] = f"layer {layer} · head {head}"
    figure = go.Figure()
    shade = [(0.0, colors.masked), (1.0, colors.masked)]
    _add(figure, canvas, names, colors.unit, "weight %{z:.4f}")
    _add(figure, hidden, names, shade, "masked: these keys come later")
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


def _add(
    figure: go.Figure,
    values: Matrix,
    names: NDArray[np.object_],
    scale: ColorScale,
    hover: str,
) -> None:
    figure.add_trace(
        go.Heatmap(
            z=values,
            text=names,
            zmin=0,
            zmax=1,
            colorscale=scale,
            showscale=False,
            hoverongaps=False,
            hovertemplate=f"%{{text}}<br>{hover}<extra></extra>",
            meta="overview",
        )
    )


def _numbered(title: str, count: int, side: int, step: int) -> dict[str, object]:
    return {
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

    ``rest`` says that the last one stands for many tokens together; it is drawn hatched.
    """
    places = list(range(len(tokens)))
    figure = go.Figure()
    for (name, values), color in zip(cases.items(), (colors.accent, colors.second), strict=False):
        figure.add_trace(
            go.Bar(
                x=list(values),
                y=places,
                name=name,
                orientation="h",
                marker={
                    "color": color,
                    "pattern": {"shape": [""] * (len(places) - rest) + ["/"] * rest},
                },
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
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        bargap=0.25,
    )
    return figure
