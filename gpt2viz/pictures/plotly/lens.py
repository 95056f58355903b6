"""The logit lens: tokens in the cells of a matrix, and curves on the same rows."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import ENTROPY, RANK, Lens, Reading
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import color_axis, markup

# At the lower edge, whatever the height: a share of it would lie on the numbers of a low axis.
_BELOW = {"orientation": "h", "x": 1, "xanchor": "right"}
_BELOW |= {"y": 0, "yref": "container", "yanchor": "bottom"}


def draw(picture: Lens, colors: Palette) -> Figure:
    """Rows from the embeddings down to the end: the tokens, then rank and entropy."""
    panel = picture.panel
    few = picture.framed is None
    figure: Figure = make_subplots(
        figure=Figure(),
        rows=1,
        cols=3,
        shared_yaxes=True,
        column_widths=[0.4, 0.3, 0.3] if few else [0.7, 0.15, 0.15],
        horizontal_spacing=0.03,
        subplot_titles=[markup(panel.title), RANK, ENTROPY],
    )
    figure.update_annotations(font_size=13)
    figure.add_trace(_tokens(picture), row=1, col=1)
    for reading in picture.readings:
        _curves(figure, picture, reading, colors)
    n_places = len(panel.values)
    if picture.framed is not None:
        x, y = picture.framed, (-0.5, n_places - 0.5)
        line = {"color": colors.second, "width": 2.5}
        figure.add_shape(type="rect", line=line, x0=x - 0.5, x1=x + 0.5, y0=y[0], y1=y[1])
    figure.update_layout(
        height=110 + 27 * n_places,
        margin={"l": 8, "r": 8, "t": 30, "b": 8},
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left"},
        coloraxis=color_axis("unit", 0, 1, panel.quantity, colors),
        legend=_BELOW,
    )
    title = {"text": panel.columns.title}
    figure.update_xaxes(type="category", showgrid=False, title=title, col=1)
    figure.update_xaxes(type="log", title={"text": "1 = first"}, dtick=1, range=[-0.1, None], col=2)
    figure.update_xaxes(tickformat="~s", tickangle=0, col=2)
    figure.update_xaxes(rangemode="tozero", col=3)
    figure.update_yaxes(
        type="category", range=[n_places - 0.5, -0.5], showgrid=False, automargin=True
    )
    return figure


def _curves(figure: Figure, picture: Lens, reading: Reading, colors: Palette) -> None:
    """Add one reading's rank and entropy; its name goes into the legend."""
    name = markup(reading.name)
    units = (reading.rank, "rank %{x:,}"), (reading.entropy, "%{x:.3f} bits")
    for column, ((values, unit), role) in enumerate(
        zip(units, reading.roles, strict=True), start=2
    ):
        line = go.Scatter(
            x=values,
            y=picture.panel.rows.names(),
            mode="lines+markers",
            line={"color": colors.shade(role, len(picture.readings))},
            marker={"symbol": reading.point},
            name=name,
            hovertemplate=f"%{{y}}<br>{unit}<extra>{name}</extra>",
            showlegend=bool(name) and column == 2,
        )
        figure.add_trace(line, row=1, col=column)


def _tokens(picture: Lens) -> go.Heatmap:
    panel = picture.panel
    return go.Heatmap(
        z=panel.values,
        x=panel.columns.names(),
        y=panel.rows.names(),
        text=[[markup(word) for word in row] for row in picture.words],
        texttemplate="%{text}",
        textfont={"size": 11},
        customdata=[[markup(said) for said in row] for row in picture.said],
        hovertemplate="%{x}<br>%{y}<br>%{customdata}<extra></extra>",
        coloraxis="coloraxis",
        meta=panel.name,
        xgap=1,
        ygap=1,
    )
