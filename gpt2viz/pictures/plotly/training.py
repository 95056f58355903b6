"""How a model learned: its losses, and every head's score, against the tokens it had read."""

from __future__ import annotations

import plotly.graph_objects as go

from gpt2viz.anatomy.training_record import TrainingRecord
from gpt2viz.pictures.grid import LEGEND_ABOVE
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.scales import color_axis


def loss_curves(record: TrainingRecord, colors: Palette) -> go.Figure:
    """Three losses in nats a token over the tokens read, on a logarithmic axis."""
    figure = go.Figure()
    for name, values, color, dash in (
        ("held-out text", record.held_out, colors.accent, "solid"),
        ("random tokens, the first time", record.first_half, colors.second, "dot"),
        ("the same tokens, repeated", record.second_half, colors.second, "dash"),
    ):
        figure.add_trace(
            go.Scatter(
                x=record.tokens,
                y=values,
                name=name,
                mode="lines+markers",
                line={"color": color, "dash": dash},
                marker={"size": 5},
                hovertemplate="%{x:,} tokens read<br>%{y:.3f} nats<extra>" + name + "</extra>",
            )
        )
    figure.update_layout(
        height=400,
        margin={"l": 8, "r": 8, "t": 34, "b": 8},
        legend=LEGEND_ABOVE,
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_xaxes(type="log", title={"text": "tokens read"}, dtick=1, tickformat="~s")
    figure.update_yaxes(title={"text": "loss (nats per token)"}, rangemode="tozero")
    return figure


def score_growth(record: TrainingRecord, name: str, colors: Palette) -> go.Figure:
    """One score, in [0, 1], of every head (rows) at every point (columns).

    A click on a row carries layer · n_head + head as its row.
    """
    n_points, n_layer, n_head = record.scores[name].shape
    figure = go.Figure(
        go.Heatmap(
            z=record.scores[name].reshape(n_points, -1).T,
            x=[f"{_short(count)} " for count in record.tokens],  # no number: Plotly would place it
            y=[f"{layer} · {head}" for layer in range(n_layer) for head in range(n_head)],
            coloraxis="coloraxis",
            hovertemplate=f"layer · head: %{{y}}<br>%{{x}}tokens read<br>{name} score %{{z:.3f}}"
            "<extra></extra>",
            meta=name,
            xgap=1,
        )
    )
    for layer in range(1, n_layer):
        figure.add_hline(y=layer * n_head - 0.5, line={"color": colors.ink, "width": 1})
    figure.update_layout(
        height=110 + 15 * n_layer * n_head,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        plot_bgcolor="rgba(0,0,0,0)",
        coloraxis=color_axis("unit", 0, 1, f"{name} score", colors),
    )
    figure.update_xaxes(type="category", title={"text": "tokens read"}, showgrid=False, ticks="")
    figure.update_yaxes(
        type="category",
        title={"text": "layer · head"},
        autorange="reversed",
        showgrid=False,
        automargin=True,
        ticks="",
    )
    return figure


def _short(count: float) -> str:
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"
