"""The logit lens: the stream read after every step, of one run or of two side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gpt2viz.labels import markup_safe, shorten
from gpt2viz.pictures.palette import POINTS, Palette
from gpt2viz.pictures.panel import Axis
from gpt2viz.pictures.scales import color_axis

if TYPE_CHECKING:  # torch stays out of the pictures
    from gpt2viz.analysis.lens import LogitLens

#: A lens and the number of one of its positions: what a column or a curve shows.
Reading = tuple["LogitLens", int]

# At the lower edge, whatever the height: a share of it would lie on the numbers of a low axis.
_BELOW = {"orientation": "h", "x": 1, "xanchor": "right"}
_BELOW |= {"y": 0, "yref": "container", "yanchor": "bottom"}


def place_name(place: tuple[str, int | None]) -> str:
    """Where on the stream a row of the lens is: "layer 2, after MLP"."""
    key, layer = place
    if layer is None:
        return "embeddings"
    return f"layer {layer}, after {'attention' if key == 'residual_mid' else 'MLP'}"


def lens_map(
    lens: LogitLens, vocabulary: Sequence[str], labels: Sequence[str], colors: Palette, chosen: int
) -> go.Figure:
    """The stream read at every place: rows from the embeddings down to the end.

    Three pictures on the same rows: the most probable next token after each of the lens's
    positions, by its probability; then for the ``chosen`` position, which is framed, the rank
    of the final answer and the entropy.
    """
    at = lens.positions.index(chosen)
    names = Axis("", [labels[n] for n in lens.positions], lens.positions).names()
    columns = {name: (lens, n) for n, name in enumerate(names)}
    figure = _pictures(columns, vocabulary, colors, widths=[0.7, 0.15, 0.15])
    _curves(figure, "", (lens, at), (colors.accent, colors.second))
    ends = {"x0": at - 0.5, "x1": at + 0.5, "y0": -0.5, "y1": len(lens.places) - 0.5}
    figure.add_shape(type="rect", line={"color": colors.second, "width": 2.5}, **ends)
    figure.update_xaxes(title={"text": "after token"}, col=1)
    return figure


def lens_of_runs(
    runs: Mapping[str, LogitLens], vocabulary: Sequence[str], colors: Palette
) -> go.Figure:
    """Up to two runs' streams at one position, by name: rows from the embeddings to the end.

    The most probable next token at every place, a column for each run; then a curve for each:
    the rank of one answer, the same in both, and the entropy.
    """
    columns = {name: (lens, 0) for name, lens in runs.items()}
    figure = _pictures(columns, vocabulary, colors, widths=[0.4, 0.3, 0.3])
    looks = zip(colors.cases(len(runs)), POINTS, strict=False)
    for (name, reading), (color, point) in zip(columns.items(), looks, strict=False):
        _curves(figure, name, reading, (color, color), point)
    figure.update_layout(legend=_BELOW)
    return figure


def _pictures(
    columns: Mapping[str, Reading], vocabulary: Sequence[str], colors: Palette, widths: list[float]
) -> go.Figure:
    """The tokens, and room for curves of rank and entropy on the same rows."""
    lens, _ = next(iter(columns.values()))
    figure = make_subplots(
        rows=1,
        cols=3,
        shared_yaxes=True,
        column_widths=widths,
        horizontal_spacing=0.03,
        subplot_titles=["most probable next token", "rank of the answer", "entropy (bits)"],
    )
    figure.update_annotations(font_size=13)
    figure.add_trace(_tokens(columns, vocabulary), row=1, col=1)
    figure.update_layout(
        height=110 + 27 * len(lens.places),
        margin={"l": 8, "r": 8, "t": 30, "b": 8},
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left"},
        coloraxis=color_axis("unit", 0, 1, "probability", colors),
    )
    figure.update_xaxes(type="category", showgrid=False, col=1)
    figure.update_xaxes(type="log", title={"text": "1 = first"}, dtick=1, range=[-0.1, None], col=2)
    figure.update_xaxes(tickformat="~s", tickangle=0, col=2)
    figure.update_xaxes(rangemode="tozero", col=3)
    figure.update_yaxes(
        type="category", range=[len(lens.places) - 0.5, -0.5], showgrid=False, automargin=True
    )
    return figure


def _curves(
    figure: go.Figure,
    name: str,
    reading: Reading,
    colors: tuple[str, str],
    point: str = POINTS[0],
) -> None:
    """Add one reading's rank and entropy in these colours; a ``name`` goes into the legend."""
    lens, at = reading
    rank, entropy = colors
    extra = f"<extra>{name}</extra>"
    for column, values, color, unit in (
        (2, lens.rank[:, at], rank, "rank %{x:,}"),
        (3, lens.entropy[:, at], entropy, "%{x:.3f} bits"),
    ):
        line = go.Scatter(
            x=values,
            y=[place_name(place) for place in lens.places],
            mode="lines+markers",
            line={"color": color},
            marker={"symbol": point},
            name=name,
            hovertemplate=f"%{{y}}<br>{unit}{extra}",
            showlegend=bool(name) and column == 2,
        )
        figure.add_trace(line, row=1, col=column)


def _tokens(columns: Mapping[str, Reading], vocabulary: Sequence[str]) -> go.Heatmap:
    """The most probable token at every place (rows) of every reading (columns)."""

    def hover(s: int, lens: LogitLens, p: int) -> str:
        top, answer = (markup_safe(vocabulary[n]) for n in (lens.top[s, p], lens.answer[p]))
        return (
            f"{top} {100 * lens.probability[s, p]:.3f} %<br>"
            f"the answer {answer} has rank {lens.rank[s, p]:,}<br>"
            f"entropy {lens.entropy[s, p]:.2f} bits"
        )

    readings = list(columns.values())
    places = readings[0][0].places
    rows = range(len(places))
    return go.Heatmap(
        z=np.column_stack([lens.probability[:, p] for lens, p in readings]).astype(np.float32),
        x=list(columns),
        y=[place_name(place) for place in places],
        text=[
            [markup_safe(shorten(vocabulary[lens.top[s, p]], 8)) for lens, p in readings]
            for s in rows
        ],
        texttemplate="%{text}",
        textfont={"size": 11},
        customdata=[[hover(s, lens, p) for lens, p in readings] for s in rows],
        hovertemplate="%{x}<br>%{y}<br>%{customdata}<extra></extra>",
        coloraxis="coloraxis",
        meta="lens",
        xgap=1,
        ygap=1,
    )
