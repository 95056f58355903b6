"""Maps of every score of every head: a row of them for each text."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gpt2viz.pictures.every_head import HeadMaps, MapRow
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import markup

#: In pixels: a title's letters, one of its lines, what is left above and between rows of maps, and
#: the names below.
_LETTERS, _LINE, _GAP, _BELOW = 12, 16, 14, 34


def draw(picture: HeadMaps, colors: Palette) -> Figure:
    """Each score with its own range, which stands above it where the row above has another."""
    n_rows, across = len(picture.rows), len(picture.rows[0].panels)
    titled = [_titles(row) for row in picture.rows]
    for n in range(n_rows - 1, 0, -1):
        if titled[n] == titled[n - 1]:
            titled[n] = [""] * len(titled[n])
    n_layer, n_head = picture.matrices[0].values.shape
    above = [_GAP + _LINE * max(len(title.splitlines()) for title in row) for row in titled]
    between = max(above[1:], default=0)
    inner = n_rows * min(40 + 20 * n_layer, 260) + (n_rows - 1) * between
    figure: Figure = make_subplots(
        figure=Figure(),
        rows=n_rows,
        cols=across,
        specs=[[{}] * len(row) + [None] * (across - len(row)) for row in titled],
        subplot_titles=[title.replace("\n", "<br>") for row in titled for title in row],
        horizontal_spacing=0.014,
        vertical_spacing=between / inner,
    )
    for down, row in enumerate(picture.rows, start=1):
        for n, panel in enumerate(row.panels):
            figure.add_trace(_map(panel, row, n, colors), down, n + 1)
            if np.isnan(panel.values).all():
                _say_nothing(figure, panel, down, n + 1)
            else:
                _frame(figure, picture, colors, down, n + 1)
        title = {"text": f"{markup(row.text)}<br>layer", "font": {"size": 11}}
        figure.update_yaxes(title=title, row=down, col=1)
    figure.update_layout(height=above[0] + inner + _BELOW, margin_t=above[0])
    _lay_out(figure, n_rows, n_layer, n_head, colors)
    return figure


def _titles(row: MapRow) -> list[str]:
    """A word of the name a line, then both ends, then the unit: eight stand side by side."""
    titles = []
    for panel, ends, unit in zip(row.panels, row.ranges, row.units, strict=True):
        name = (f"<b>{markup(word)}</b>" for word in panel.name.split())
        titles.append("\n".join([*name, ends.replace(" ", "\u00a0"), markup(unit)]).rstrip())
    return titles


def _map(panel: Panel, row: MapRow, n: int, colors: Palette) -> go.Heatmap:
    low, high = row.ends[n]
    return go.Heatmap(
        z=panel.values,
        zmin=low,
        zmax=high,
        colorscale=colors.unit,
        showscale=False,
        hoverongaps=False,
        xgap=1,
        ygap=1,
        name=markup(panel.title),
        meta=panel.name,
        hovertemplate=f"{markup(row.text)}<br>layer %{{y}} · head %{{x}}<br>{panel.quantity} "
        f"%{{z:.4f}} {row.units[n]}<extra></extra>",
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


def _lay_out(figure: Figure, n_rows: int, n_layer: int, n_head: int, colors: Palette) -> None:
    """Names at the outer maps only."""
    figure.update_annotations(font_size=_LETTERS)
    figure.update_xaxes(range=[-0.5, n_head - 0.5], dtick=1 if n_head <= 8 else 4)
    figure.update_yaxes(range=[n_layer - 0.5, -0.5], dtick=1 if n_layer <= 8 else 4)
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(showgrid=False, zeroline=False, ticks="", mirror=True, linecolor=colors.grid)
        axes(tickfont={"size": 11})
    figure.update_yaxes(showticklabels=False)
    figure.update_yaxes(showticklabels=True, col=1)
    figure.update_xaxes(showticklabels=False)
    figure.update_xaxes(showticklabels=True, row=n_rows)
    figure.update_xaxes(title={"text": "head", "font": {"size": 11}}, row=n_rows)
    figure.update_layout(
        margin={"l": 8, "r": 8, "b": 8, "pad": 0},
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left"},
    )
