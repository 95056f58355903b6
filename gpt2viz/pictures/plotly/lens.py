"""The logit lens: tokens in the cells of a matrix, and curves on the same rows."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import ENTROPY, LENS_ROW, RANK, Lens, Reading
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import color_axis, markup
from gpt2viz.pictures.plotly.heatmap import rectangle, traces_of

# At the lower edge, whatever the height: a share of it would lie on the numbers of a low axis.
_BELOW = {"orientation": "h", "x": 1, "xanchor": "right"}
_BELOW |= {"y": 0, "yref": "container", "yanchor": "bottom"}
#: Where the canvas begins the first row of a matrix with a title of one line, in pixels.
_TITLE = 20
#: Numbers and their title below curves, and a legend below these, in pixels.
_NUMBERS, _LEGEND = 60, 30


def draw(picture: Lens, colors: Palette) -> Figure:
    """Rows from the embeddings down to the end: the tokens, then rank and entropy."""
    panel = picture.panel
    widths = [0.4, 0.3, 0.3] if picture.column is None else [0.7, 0.15, 0.15]
    figure = _side_by_side(
        picture, [markup(panel.title), RANK, ENTROPY], 0.03, column_widths=widths
    )
    for trace in traces_of(panel, "", colors, None, {}):
        figure.add_trace(trace, row=1, col=1)
    framed = picture.tokens.framed(panel)
    if framed is not None:
        figure.add_shape(**rectangle(framed, "", colors.second, 2.5))
    _add_curves(figure, picture, colors, first=2)
    figure.update_layout(
        height=110 + LENS_ROW * len(panel.values),
        margin={"l": 8, "r": 8, "t": 30, "b": 8},
        coloraxis=color_axis("unit", 0, 1, panel.quantity, colors),
    )
    title = {"text": panel.columns.title}
    figure.update_xaxes(type="category", showgrid=False, title=title, col=1)
    figure.update_yaxes(automargin=True)
    return figure


def draw_curves(picture: Lens, colors: Palette) -> Figure:
    """Rank and entropy alone, their rows as high as those of the matrix on the canvas beside."""
    figure = _side_by_side(picture, [RANK, ENTROPY], 0.08)
    _add_curves(figure, picture, colors, first=1)
    below = _NUMBERS + _LEGEND * any(one.name for one in picture.readings)
    figure.update_layout(
        height=_TITLE + LENS_ROW * len(picture.panel.values) + below,
        margin={"l": 8, "r": 8, "t": _TITLE, "b": below, "autoexpand": False},
    )
    figure.update_yaxes(showticklabels=False)
    return figure


def _side_by_side(picture: Lens, titles: list[str], between: float, **options: Any) -> Figure:
    """Empty plots with the rows of the lens, from the top down; ``between`` them a share of all."""
    figure: Figure = make_subplots(
        figure=Figure(),
        rows=1,
        cols=len(titles),
        shared_yaxes=True,
        horizontal_spacing=between,
        subplot_titles=titles,
        **options,
    )
    figure.update_annotations(font_size=13)
    figure.update_layout(plot_bgcolor="rgba(0,0,0,0)", hoverlabel={"align": "left"}, legend=_BELOW)
    rows = [len(picture.panel.values) - 0.5, -0.5]
    figure.update_yaxes(type="category", range=rows, showgrid=False)
    return figure


def _add_curves(figure: Figure, picture: Lens, colors: Palette, first: int) -> None:
    """Add every reading's rank and entropy; ``first`` is the plot of the ranks."""
    for reading in picture.readings:
        _add_reading(figure, picture, reading, colors, first)
    figure.update_xaxes(
        type="log",
        title={"text": "1 = first", "standoff": 8},
        dtick=1,
        range=[-0.1, None],
        tickformat="~s",
        tickangle=0,
        col=first,
    )
    figure.update_xaxes(rangemode="tozero", col=first + 1)


def _add_reading(
    figure: Figure, picture: Lens, reading: Reading, colors: Palette, first: int
) -> None:
    """Add one reading's rank and entropy; its name goes into the legend."""
    name = markup(reading.name)
    units = (reading.rank, "rank %{x:,}"), (reading.entropy, "%{x:.3f} bits")
    for column, ((values, unit), role) in enumerate(
        zip(units, reading.roles, strict=True), start=first
    ):
        line = go.Scatter(
            x=values,
            y=picture.panel.rows.names(),
            mode="lines+markers",
            line={"color": colors.shade(role, len(picture.readings))},
            marker={"symbol": reading.point},
            name=name,
            hovertemplate=f"%{{y}}<br>{unit}<extra>{name}</extra>",
            showlegend=bool(name) and column == first,
        )
        figure.add_trace(line, row=1, col=column)
