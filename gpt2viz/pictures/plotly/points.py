"""Points of a plane, each with its name beside it."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from gpt2viz.pictures.palette import POINTS, Palette
from gpt2viz.pictures.picture import Points
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import markup

#: What is left free at the sides, as a share of the width, for names that stand at the edge.
_MARGIN = 0.15


def draw(picture: Points, colors: Palette) -> Figure:
    """Circles, and diamonds for those that were made; as far apart as their numbers say."""
    made = [n in picture.made for n in range(len(picture.names))]
    names = [markup(name) for name in picture.names]
    hover = [
        f"{name}<br>{x:.4g}, {y:.4g}"
        for name, x, y in zip(names, picture.x, picture.y, strict=True)
    ]
    figure = Figure(
        go.Scatter(
            x=list(picture.x),
            y=list(picture.y),
            text=names,
            mode="markers+text",
            textposition=_sides(np.column_stack([picture.x, picture.y])),
            textfont={"color": colors.ink, "size": 13},
            marker={
                "size": [13 if one else 9 for one in made],
                "symbol": [POINTS[one] for one in made],
                "color": [colors.second if one else colors.accent for one in made],
                "line": {"width": 2},
            },
            customdata=hover,
            hovertemplate="%{customdata}<extra></extra>",
            cliponaxis=False,
        )
    )
    figure.update_layout(
        height=picture.height,
        margin={"l": 8, "r": 8, "t": 24, "b": 8},
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
    )
    low, high = min(picture.x, default=0.0), max(picture.x, default=0.0)
    free = _MARGIN * (high - low) or 1.0
    figure.update_xaxes(title={"text": picture.x_title}, range=[low - free, high + free])
    figure.update_yaxes(title={"text": picture.y_title}, scaleanchor="x")
    return figure


def _sides(points: NDArray[np.float64]) -> list[str]:
    """Where the name of each point (n, 2) stands: on the side away from the point nearest to it."""
    found = []
    for n, point in enumerate(points):
        away = point - np.delete(points, n, axis=0)  # (n − 1, 2)
        across, up = away[np.hypot(*away.T).argmin()] if len(away) else (0.0, 1.0)
        if abs(across) > abs(up):
            found.append("middle right" if across > 0 else "middle left")
        else:
            found.append("bottom center" if up < 0 else "top center")
    return found
