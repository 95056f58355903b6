"""A trace and a reason in a notebook: their HTML, and Plotly figures."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpt2viz.labels import layers_of_heads, pluralize
from gpt2viz.pictures import sheet, svg
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.explanation import pair_table, reason_map
from gpt2viz.pictures.from_trace import mask_of, stage_panel, stage_picture
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.plotly.figure import Figure, render
from gpt2viz.pictures.pooling import GRID, pool_panel, thumbnails
from gpt2viz.pictures.tables import panel_table
from gpt2viz.run.stages import HeadStageName
from gpt2viz.run.trace import WRITTEN, Trace

if TYPE_CHECKING:  # torch stays out of the pictures
    from gpt2viz.analysis.reasons import Reason

#: Pixels from one head to the next in the picture of a trace's HTML.
TILE = 44

_CHIP = (
    "display:inline-block;border:1px solid #8886;border-radius:.5em;padding:0 .4em;margin:.1em;"
    "font-family:ui-monospace,monospace"
)


def heatmap(trace: Trace, layer: int, head: int, stage: HeadStageName = "weights") -> Figure:
    """One stage of one head: (T, T) with queries down and keys across, or (T, hs).

    ``stage`` is one of ``gpt2viz.HEAD_STAGES``. Above 256 tokens each cell is a block's number
    farthest from 0. Raises ``StageError`` and ``PlaceError`` as ``trace.stage`` does.
    """
    trace.stage(stage, layer, head)  # for its errors, which list the valid values
    return _standalone(stage_picture(trace, stage, layer, head), 660)


def heads(trace: Trace, layer: int, stage: HeadStageName = "weights") -> Figure:
    """One stage of every head of a layer, side by side on one scale."""
    trace.stage(stage, layer)  # for its errors
    across = 3 if trace.config.n_head <= 9 else 4
    panels = [
        pool_panel(stage_panel(trace, trace.labels, stage, layer, n, f"Head {n}"), GRID // 4)
        for n in range(trace.config.n_head)
    ]
    made = trace.graph[stage]
    picture = Heatmaps(
        f"{made.label} of every head of layer {layer}",
        panels,
        scale=made.scale,
        n_columns=across,
        height=60 + 240 * -(-len(panels) // across),
        numbers=0,
        bar=panels[0].quantity,
    )
    return _standalone(picture, 250 * across)


def overview(trace: Trace) -> Figure:
    """The weights of every head of every layer as thumbnails: layers down, heads across."""
    return _standalone(_every_head(trace), 130 + 150 * trace.config.n_head)


def table(trace: Trace, layer: int, head: int, stage: HeadStageName = "weights") -> pd.DataFrame:
    """The numbers of ``heatmap``, not pooled, with tokens as names of rows and columns."""
    trace.stage(stage, layer, head)  # for its errors
    return panel_table(stage_panel(trace, trace.labels, stage, layer, head, ""))


def html(trace: Trace) -> str:
    """A trace as HTML without scripts: model, tokens, and every head's weights as a small picture.

    A long run, which would have to compute all weights for the pictures, shows none. All texts are
    escaped, and nothing is fetched.
    """
    config, labels = trace.config, trace.labels
    edits = f" · edits {','.join(map(str, trace.edits))}" if trace.edits else ""
    chips = "".join(
        f'<span style="{_CHIP}"><small style="opacity:.7">{n}</small> {escape(text)}</span>'
        for n, text in enumerate(labels[:WRITTEN])
    )
    more = f" … and {len(labels) - WRITTEN:,} more" if len(labels) > WRITTEN else ""
    what = f"Attention weights of all heads: {config.n_layer} layers down, {config.n_head} across"
    picture = (
        f'<img alt="{what}" src="data:image/png;base64,{_png_base64(trace)}" '
        'style="max-width:100%;image-rendering:pixelated"><br>'
        f"<small>{what}. <code>trace.overview()</code> enlarges it.</small>"
        if trace.explicit
        else "<small><code>trace.overview()</code> draws every head.</small>"
    )
    size = layers_of_heads(config.n_layer, config.n_head)
    return (
        f"<div><p><b>{escape(trace.model_name)}</b> · {size} · "
        f"{pluralize(len(labels), 'tokens')} · causal mask {'on' if trace.causal else 'off'}"
        f"{escape(edits)}</p><p>{chips}{more}</p>{picture}</div>"
    )


def reason(case: Reason, raw: bool) -> Figure:
    """Every pair of parts, beyond the row's mean or ``raw``, with sums in one more row."""
    picture = reason_map(case, raw=raw)
    return _standalone(picture, 220 + 26 * picture.matrices[0].values.shape[1])


def reason_html(case: Reason) -> str:
    """A reason as HTML without scripts: its sentences and its leading pairs, escaped."""
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in case.words())
    pairs = pair_table(case)
    shown = pairs.to_html(index=False, border=0, float_format="{:.2f}".format) if len(pairs) else ""
    return f"<div>{sentences}{shown}<small><code>heatmap()</code> draws all pairs.</small></div>"


def _every_head(trace: Trace) -> Thumbnails:
    what = "Attention weights of every head: layers down, heads across"
    layers = (trace.stage("weights", n)[0] for n in range(trace.config.n_layer))
    return Thumbnails(what, thumbnails(layers), mask_of(trace, trace.widest_layer, 0), trace.labels)


def _png_base64(trace: Trace) -> str:
    return base64.b64encode(sheet.png(pixels(trace))).decode()


def pixels(trace: Trace) -> NDArray[np.uint8]:
    """Every head's weights in colours: (height, width, 3), ``TILE`` pixels per head or more."""
    picture = _every_head(trace)
    n_layer, n_head, side = picture.tiles.shape[:3]
    zoom = max(1, (TILE - 4) // side)
    step = side * zoom + 4
    canvas = np.full((n_layer, n_head, step, step, 3), 255, np.uint8)
    for panel, tile in zip(picture.matrices, canvas.reshape(-1, step, step, 3), strict=True):
        cells = svg.paint(panel, (0, 1), LIGHT.unit, LIGHT)
        tile[2:-2, 2:-2] = cells.repeat(zoom, axis=0).repeat(zoom, axis=1)
    return canvas.swapaxes(1, 2).reshape(n_layer * step, n_head * step, 3)


def _standalone(picture: Heatmaps | Thumbnails, width: int) -> Figure:
    """A picture as a standalone figure, with a background and fonts of its own.

    It has no button that uploads it, in any program.
    """
    figure = render(picture, LIGHT)
    figure.update_layout(
        template="plotly_white",
        width=width,
        paper_bgcolor="#ffffff",
        font_color=LIGHT.ink,
        modebar_remove="sendChartToCloud",
    )
    figure.seal()
    return figure
