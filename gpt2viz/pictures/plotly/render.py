"""Pictures as Plotly figures, in the colours of a light or a dark page."""

from __future__ import annotations

from collections.abc import Callable

from gpt2viz.pictures.every_head import HeadMaps, Thumbnails, as_heatmaps
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Bars, Curves, Heatmaps, Lens, Picture, Points
from gpt2viz.pictures.plotly import (
    bars,
    curves,
    heatmap,
    lens,
    points,
    thumbnails,
    wiring,
)
from gpt2viz.pictures.plotly.base import Figure, inked
from gpt2viz.pictures.wiring import Wiring

#: How each kind is drawn.
_DRAW: dict[type[Picture], Callable[..., Figure]] = {
    Bars: bars.draw,
    Curves: curves.draw,
    HeadMaps: lambda picture, colors: heatmap.draw(as_heatmaps(picture), colors),
    Heatmaps: heatmap.draw,
    Lens: lens.draw,
    Points: points.draw,
    Thumbnails: thumbnails.draw,
    Wiring: wiring.draw,
}


def draws(picture: Picture) -> bool:
    """True where a picture can be a Plotly figure; lines and frames are SVG alone."""
    return type(picture) in _DRAW


def render(picture: Picture, colors: Palette) -> Figure:
    """A picture drawn in these colours."""
    made = _DRAW[type(picture)](picture, colors)
    made.picture = picture
    return inked(made, colors)
