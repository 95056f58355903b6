"""Pictures as Plotly figures, in the colours of a light or a dark page."""

from __future__ import annotations

from collections.abc import Callable

from gpt2viz.pictures.circuits import Wiring
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Bars, Curves, Heatmaps, Picture, Points
from gpt2viz.pictures.plotly import wiring
from gpt2viz.pictures.plotly.base import Figure, inked
from gpt2viz.pictures.plotly.matrices import draw_heatmaps, draw_thumbnails
from gpt2viz.pictures.plotly.series import draw_bars, draw_curves, draw_points

#: How each kind is drawn.
_DRAW: dict[type[Picture], Callable[..., Figure]] = {
    Bars: draw_bars,
    Curves: draw_curves,
    Heatmaps: draw_heatmaps,
    Points: draw_points,
    Thumbnails: draw_thumbnails,
    Wiring: wiring.draw,
}


def render(picture: Picture, colors: Palette) -> Figure:
    """A picture drawn in these colours."""
    made = _DRAW[type(picture)](picture, colors)
    made.picture = picture
    return inked(made, colors)
