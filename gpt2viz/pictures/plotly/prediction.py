"""Pictures of what the model predicts: surprise, and who wrote a logit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Axis
from gpt2viz.pictures.scales import color_axis

if TYPE_CHECKING:  # torch stays out of the pictures
    from gpt2viz.analysis.lens import Contributions


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
