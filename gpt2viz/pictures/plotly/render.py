"""Any picture as a Plotly figure, in the colours of a light or a dark page."""

from __future__ import annotations

from collections.abc import Callable

from gpt2viz.pictures.every_head import HeadMaps, Thumbnails
from gpt2viz.pictures.frames import Still
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Bars, Curves, Heatmaps, Lens, Picture, Points
from gpt2viz.pictures.plotly import (
    bars,
    curves,
    head_maps,
    heatmap,
    lens,
    lines,
    points,
    still,
    thumbnails,
    wiring,
)
from gpt2viz.pictures.plotly.base import Figure, inked
from gpt2viz.pictures.wiring import Wiring

#: How each kind is drawn.
_DRAW: dict[type[Picture], Callable[..., Figure]] = {
    Bars: bars.draw,
    Curves: curves.draw,
    HeadMaps: head_maps.draw,
    Heatmaps: heatmap.draw,
    Lens: lens.draw,
    Lines: lines.draw,
    Points: points.draw,
    Still: still.draw,
    Thumbnails: thumbnails.draw,
    Wiring: wiring.draw,
}


def render(picture: Picture, colors: Palette) -> Figure:
    """A picture drawn in these colours."""
    made = _DRAW[type(picture)](picture, colors)
    made.picture = picture
    return inked(made, colors)
