"""Maps of every score of every head: a row of them for each text."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import HeadMaps
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import markup


def draw(picture: HeadMaps, colors: Palette) -> Figure:
    """Each score with its own range, which stands above it."""
    titles = [
        f"<b>{markup(name)}</b><br>0 to {highest:.3g} {unit}"
        for name, highest, unit in zip(picture.scores, picture.highest, picture.units, strict=True)
    ]
    n_texts, n_scores = len(picture.texts), len(picture.scores)
    figure: Figure = make_subplots(
        figure=Figure(),
        rows=n_texts,
        cols=n_scores,
        subplot_titles=titles,
        horizontal_spacing=0.014,
        vertical_spacing=0.09,
    )
    for down, (text, maps) in enumerate(zip(picture.texts, picture.maps, strict=True), start=1):
        for across, panel in enumerate(maps, start=1):
            figure.add_trace(_map(panel, picture, across - 1, text, colors), down, across)
            if np.isnan(panel.values).all():
                _say_nothing(figure, panel, down, across)
            _frame(figure, picture, colors, down, across)
        title = {"text": f"{markup(text)}<br>layer", "font": {"size": 11}}
        figure.update_yaxes(title=title, row=down, col=1)
    n_layer, n_head = picture.maps[0][0].values.shape
    _lay_out(figure, n_texts, n_layer, n_head, colors)
    return figure


def _map(panel: Panel, picture: HeadMaps, n: int, text: str, colors: Palette) -> go.Heatmap:
    return go.Heatmap(
        z=panel.values,
        zmin=0,
        zmax=picture.highest[n],
        colorscale=colors.unit,
        showscale=False,
        hoverongaps=False,
        xgap=1,
        ygap=1,
        name=markup(panel.title),
        meta=panel.name,
        hovertemplate=f"{markup(text)}<br>layer %{{y}} · head %{{x}}<br>{panel.quantity} %{{z:.4f}}"
        f" {picture.units[n]}<extra></extra>",
    )


def _frame(figure: Figure, picture: HeadMaps, colors: Palette, down: int, across: int) -> None:
    layer, head = picture.chosen
    if layer is None or head is None:
        return
    ends = {"x0": head - 0.5, "x1": head + 0.5, "y0": layer - 0.5, "y1": layer + 0.5}
    line = {"color": colors.second, "width": 2}
    figure.add_shape(type="rect", **ends, line=line, row=down, col=across)


def _say_nothing(figure: Figure, panel: Panel, down: int, across: int) -> None:
    n_layer, n_head = panel.values.shape
    figure.add_annotation(
        text=markup(panel.masked_text),
        showarrow=False,
        font={"size": 11},
        x=(n_head - 1) / 2,
        y=(n_layer - 1) / 2,
        row=down,
        col=across,
    )


def _lay_out(figure: Figure, n_texts: int, n_layer: int, n_head: int, colors: Palette) -> None:
    """Names at the outer maps only."""
    figure.update_annotations(font_size=12)
    figure.update_xaxes(range=[-0.5, n_head - 0.5], dtick=1 if n_head <= 8 else 4)
    figure.update_yaxes(range=[n_layer - 0.5, -0.5], dtick=1 if n_layer <= 8 else 4)
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(showgrid=False, zeroline=False, ticks="", mirror=True, linecolor=colors.grid)
        axes(tickfont={"size": 10})
    figure.update_yaxes(showticklabels=False)
    figure.update_yaxes(showticklabels=True, col=1)
    figure.update_xaxes(showticklabels=False)
    figure.update_xaxes(showticklabels=True, row=n_texts)
    figure.update_xaxes(title={"text": "head", "font": {"size": 11}}, row=n_texts)
    figure.update_layout(
        height=70 + n_texts * min(60 + 20 * n_layer, 260),
        margin={"l": 8, "r": 8, "t": 44, "b": 8, "pad": 0},
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left"},
    )
