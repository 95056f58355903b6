"""Every head of a model by a number or by its weights: maps, a ranking, the best ones' pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from gpt2viz.analysis.patterns import as_weights
from gpt2viz.analysis.scores import SCORES, Scores
from gpt2viz.pictures.from_trace import head_stage, hidden_in, mask_of
from gpt2viz.pictures.measure import GRID
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Axis, Mask, Panel
from gpt2viz.pictures.pooling import pool_panel
from gpt2viz.run.trace import Trace

#: Cells along one side of a head's picture beside the ranking; a longer text is pooled.
SMALL = 64


def atlas(texts: Mapping[str, Mapping[str, Scores]], colors: Palette) -> go.Figure:
    """A map (layers down, heads across) of every score, a row of maps for each of the texts.

    Scores in [0, 1] share one scale; an amount has one of its own, from 0 to the largest of all
    texts, which stands above it. A score that a text lacks is an empty map that says so. A click
    carries a head's layer as row and its number as column.
    """
    figure = make_subplots(
        rows=len(texts),
        cols=len(SCORES),
        subplot_titles=[_with_range(name, texts) for name in SCORES],
        horizontal_spacing=0.014,
        vertical_spacing=0.09,
    )
    for down, (text, scores) in enumerate(texts.items(), start=1):
        nothing = np.full_like(next(iter(scores.values())), np.nan)
        for across, name in enumerate(SCORES, start=1):
            values = scores.get(name, nothing)
            figure.add_trace(_map(text, name, values, _highest(name, texts), colors), down, across)
            if np.isnan(values).all():
                no_query = {
                    "text": "nothing to<br>measure" if name in scores else "not in this<br>survey",
                    "showarrow": False,
                    "font": {"size": 11},
                }
                n_layer, n_head = values.shape
                middle = {"x": (n_head - 1) / 2, "y": (n_layer - 1) / 2}
                figure.add_annotation(no_query | middle, row=down, col=across)
        figure.update_yaxes(
            title={"text": f"{text}<br>layer", "font": {"size": 11}}, row=down, col=1
        )
    n_layer, n_head = next(iter(next(iter(texts.values())).values())).shape
    figure.update_annotations(font_size=12)
    figure.update_xaxes(range=[-0.5, n_head - 0.5], dtick=1 if n_head <= 8 else 4)
    figure.update_yaxes(range=[n_layer - 0.5, -0.5], dtick=1 if n_layer <= 8 else 4)
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(showgrid=False, zeroline=False, ticks="", mirror=True, linecolor=colors.grid)
        axes(tickfont={"size": 10})
    figure.update_yaxes(showticklabels=False)
    figure.update_yaxes(showticklabels=True, col=1)
    figure.update_xaxes(showticklabels=False)
    figure.update_xaxes(showticklabels=True, row=len(texts))
    figure.update_xaxes(title={"text": "head", "font": {"size": 11}}, row=len(texts))
    figure.update_layout(
        height=70 + len(texts) * min(60 + 20 * n_layer, 260),
        margin={"l": 8, "r": 8, "t": 44, "b": 8, "pad": 0},
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left"},
    )
    return figure


def _highest(name: str, texts: Mapping[str, Mapping[str, Scores]]) -> float:
    if SCORES[name].scale == "unit":
        return 1.0
    found = [scores[name] for scores in texts.values() if name in scores]
    peak = max((float(np.nanmax(values, initial=0)) for values in found), default=0)
    return peak or 1.0


def _with_range(name: str, texts: Mapping[str, Mapping[str, Scores]]) -> str:
    return f"<b>{name}</b><br>0 to {_highest(name, texts):.3g} {SCORES[name].unit}"


def _map(text: str, name: str, values: Scores, highest: float, colors: Palette) -> go.Heatmap:
    return go.Heatmap(
        z=values.astype(np.float32),
        zmin=0,
        zmax=highest,
        colorscale=colors.unit,
        showscale=False,
        hoverongaps=False,
        xgap=1,
        ygap=1,
        name=f"{name}, {text}",
        meta=name,
        hovertemplate=f"{text}<br>layer %{{y}} · head %{{x}}<br>{name} %{{z:.4f}} "
        f"{SCORES[name].unit}<extra></extra>",
    )


def head_map(values: NDArray[np.floating], quantity: str) -> Panel:
    """One number (n_layer, n_head) for every head. A click carries layer and head."""
    n_layer, n_head = values.shape
    return Panel(
        title=f"{quantity}, every head",
        values=values.astype(np.float32),
        rows=Axis("layer", [str(n) for n in range(n_layer)]),
        columns=Axis("head", [str(n) for n in range(n_head)]),
        name=quantity,
        quantity=quantity,
    )


def drawn_pattern(wanted: Mask, labels: Sequence[str], trace: Trace) -> Panel:
    """A drawn pattern (T, T) as the weights that a head would have which does just that."""
    panel = Panel(
        title="The pattern to look for",
        values=as_weights(wanted),
        rows=Axis("query", labels),
        columns=Axis("key", labels),
        name="pattern",
        quantity="wanted weight",
        masked=mask_of(trace, 0, 0),
        masked_text=hidden_in(trace).text(),
        masked_name=hidden_in(trace).name,
    )
    return pool_panel(panel, GRID)


def ranking(
    columns: Mapping[str, NDArray[np.floating]], by: str, layers: Sequence[int]
) -> pd.DataFrame:
    """Every head of some layers, one row each, largest ``by`` first; what has no number last.

    ``columns`` holds (n_layer, n_head) by name; all layers where ``layers`` is empty.
    """
    n_layer, n_head = columns[by].shape
    where = np.indices((n_layer, n_head)).reshape(2, -1)
    ordered = [by, *(name for name in columns if name != by)]
    table = pd.DataFrame(
        {"layer": where[0], "head": where[1]}
        | {name: columns[name].ravel().astype(np.float64) for name in ordered}
    )
    if layers:
        table = table[table["layer"].isin(layers)]
    return table.sort_values(by, ascending=False, kind="stable", ignore_index=True)


def best_heads(
    trace: Trace, labels: Sequence[str], table: pd.DataFrame, by: str, size: int = SMALL
) -> list[Panel]:
    """The weights (T, T) of the heads in a table, shrunk to ``size``.

    A click carries "layer.head".
    """
    found = []
    for row in table.to_dict("records"):
        layer, head = int(row["layer"]), int(row["head"])
        title = f"Layer {layer} · Head {head}: {row[by]:.3f}"
        panel = head_stage(trace, labels, "weights", layer, head, title)
        found.append(replace(pool_panel(panel, size), name=f"{layer}.{head}"))
    return found
