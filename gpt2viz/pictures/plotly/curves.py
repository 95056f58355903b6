"""Curves over one axis, such as activation functions or a size against depth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from gpt2viz.pictures.grid import LEGEND_ABOVE
from gpt2viz.pictures.palette import DASHES, Palette


def curves_at(
    x: ArrayLike,
    curves: Mapping[str, ArrayLike],
    colors: Palette,
    x_title: str,
    y_title: str,
) -> go.Figure:
    """One line a curve over the same x; told apart by colour and by dash."""
    figure = go.Figure()
    shades = (colors.query, colors.key, colors.value, colors.ink)
    for (name, y), color, dash in zip(curves.items(), shades, DASHES, strict=False):
        figure.add_trace(
            go.Scatter(
                x=np.asarray(x),
                y=np.asarray(y),
                name=name,
                mode="lines",
                line={"color": color, "dash": dash, "width": 2},
                hovertemplate=f"{x_title} %{{x:.4g}}<br>%{{y:.4f}}<extra>{name}</extra>",
            )
        )
    figure.update_layout(
        height=320,
        margin={"l": 8, "r": 8, "t": 34, "b": 8},
        legend=LEGEND_ABOVE,
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_xaxes(title={"text": x_title})
    figure.update_yaxes(title={"text": y_title})
    return figure
