"""Pictures of what the model predicts: surprise, the stream read early, who wrote a logit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from gpt2viz.figures.palette import Palette
from gpt2viz.figures.panel import Axis
from gpt2viz.figures.scales import color_axis
from gpt2viz.labels import markup_safe, shorten

if TYPE_CHECKING:  # torch stays out of the pictures
    from gpt2viz.lens import Contributions, LogitLens


def _lay_out(figure: go.Figure, height: int, top: int = 8, **more: object) -> None:
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": top, "b": 8},
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left"},
        **more,
    )


def token_bars(
    labels: Sequence[str], values: NDArray[np.floating], colors: Palette, title: str, unit: str = ""
) -> go.Figure:
    """One number (T,) a token, as bars; NaN has none. ``title`` names the number."""
    names = Axis("token", labels).names()
    few = len(values) <= 30
    figure = go.Figure(
        go.Bar(
            x=names,
            y=values,
            width=min(0.8, 0.05 + 0.05 * len(values)),
            marker={"color": colors.accent},
            text=[f"{v:.3g}" if np.isfinite(v) else "" for v in values] if few else None,
            textposition="outside",
            cliponaxis=False,
            hovertemplate=f"%{{x}}<br>%{{y:.5g}} {unit}<extra></extra>",
        )
    )
    _lay_out(figure, 230, top=22)
    figure.update_xaxes(type="category", range=[-0.5, len(names) - 0.5], **Axis("", labels).ticks())
    figure.update_yaxes(title={"text": title}, rangemode="tozero")
    return figure


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
    places = [place_name(place) for place in lens.places]
    at = lens.positions.index(chosen)
    figure = make_subplots(
        rows=1,
        cols=3,
        shared_yaxes=True,
        column_widths=[0.7, 0.15, 0.15],
        horizontal_spacing=0.03,
        subplot_titles=["most probable next token", "rank of the answer", "entropy (bits)"],
    )
    figure.update_annotations(font_size=13)
    figure.add_trace(_lens_cells(lens, places, vocabulary, labels), row=1, col=1)
    for column, values, color, unit in (
        (2, lens.rank[:, at], colors.accent, "rank %{x:,}"),
        (3, lens.entropy[:, at], colors.second, "%{x:.3f} bits"),
    ):
        line = go.Scatter(
            x=values,
            y=places,
            mode="lines+markers",
            line={"color": color},
            hovertemplate=f"%{{y}}<br>{unit}<extra></extra>",
            showlegend=False,
        )
        figure.add_trace(line, row=1, col=column)
    ends = {"x0": at - 0.5, "x1": at + 0.5, "y0": -0.5, "y1": len(places) - 0.5}
    figure.add_shape(type="rect", line={"color": colors.second, "width": 2.5}, **ends)
    scale = color_axis("unit", 0, 1, "probability", colors)
    _lay_out(figure, 110 + 27 * len(places), top=30, coloraxis=scale)
    figure.update_xaxes(type="category", title={"text": "after token"}, showgrid=False, col=1)
    figure.update_xaxes(type="log", title={"text": "1 = first"}, dtick=1, range=[-0.1, None], col=2)
    figure.update_xaxes(tickformat="~s", tickangle=0, col=2)
    figure.update_xaxes(rangemode="tozero", col=3)
    figure.update_yaxes(
        type="category", range=[len(places) - 0.5, -0.5], showgrid=False, automargin=True
    )
    return figure


def _lens_cells(
    lens: LogitLens, places: list[str], vocabulary: Sequence[str], labels: Sequence[str]
) -> go.Heatmap:
    def hover(s: int, p: int) -> str:
        top, answer = (markup_safe(vocabulary[n]) for n in (lens.top[s, p], lens.answer[p]))
        return (
            f"{top} {100 * lens.probability[s, p]:.3f} %<br>"
            f"the final answer {answer} has rank {lens.rank[s, p]:,}<br>"
            f"entropy {lens.entropy[s, p]:.2f} bits"
        )

    columns = range(len(lens.positions))
    return go.Heatmap(
        z=lens.probability.astype(np.float32),
        x=Axis("", [labels[n] for n in lens.positions], lens.positions).names(),
        y=places,
        text=[[markup_safe(shorten(vocabulary[n], 8)) for n in row] for row in lens.top],
        texttemplate="%{text}",
        textfont={"size": 11},
        customdata=[[hover(s, p) for p in columns] for s in range(len(places))],
        hovertemplate="%{y}, after %{x}<br>%{customdata}<extra></extra>",
        coloraxis="coloraxis",
        meta="lens",
        xgap=1,
        ygap=1,
    )


def contribution_map(parts: Contributions, colors: Palette) -> go.Figure:
    """What every head, bias and MLP added to a logit: layers down, parts across, signed.

    A click on a head's cell carries its layer as row and its number as column.
    """
    n_layer, n_head = parts.heads.shape
    values = np.column_stack([parts.heads, parts.attention_bias, parts.mlp])
    names = [*(f"head {n}" for n in range(n_head)), "bias b_O", "MLP"]
    peak = float(np.abs(values).max()) or 1.0
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=names,
            y=[f"layer {n}" for n in range(n_layer)],
            coloraxis="coloraxis",
            texttemplate="%{z:+.2f}" if values.shape[1] <= 16 else None,
            hovertemplate="%{y}, %{x}<br>%{z:+.5f} nats of logit<extra></extra>",
            meta="contributions",
            xgap=1,
            ygap=1,
        )
    )
    figure.add_vline(x=n_head - 0.5, line={"color": colors.ink, "width": 2})
    scale = color_axis("signed", -peak, peak, "added to the logit (nats)", colors)
    _lay_out(figure, max(220, 70 + 34 * n_layer), coloraxis=scale)
    figure.update_xaxes(type="category", side="top", showgrid=False, ticks="")
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False, automargin=True)
    return figure
