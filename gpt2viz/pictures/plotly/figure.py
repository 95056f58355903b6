"""Pictures as Plotly figures, in the colours of a light or a dark page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Heatmaps, Picture
from gpt2viz.pictures.plotly.chart import CHARTS, LOOK
from gpt2viz.pictures.plotly.matrices import draw_heatmaps, draw_thumbnails

#: The function that draws each kind.
_DRAW: dict[type[Picture], Callable[..., dict[str, Any]]] = {
    **CHARTS,
    Heatmaps: draw_heatmaps,
    Thumbnails: draw_thumbnails,
}


class Figure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """A Plotly figure drawn from a ``picture``, which has its words and its numbers."""

    picture: Picture | None = None
    _sealed: int | None = None

    def seal(self) -> None:
        """Remember its current look; see ``unchanged``."""
        self._sealed = hash(self.to_json())

    @property
    def unchanged(self) -> Picture | None:
        """Its picture, unless the figure has changed since it was sealed."""
        return self.picture if self._sealed == hash(self.to_json()) else None


def render(picture: Picture, colors: Palette) -> Figure:
    """A picture drawn in these colours, with all of its words in ink."""
    made = Figure(_DRAW[type(picture)](picture, colors))
    made.picture = picture
    ink = {"tickfont": {"color": colors.ink}, "title": {"font": {"color": colors.ink}}}
    made.update_layout(LOOK, font={"color": colors.ink})
    made.update_xaxes(ink)
    made.update_yaxes(ink)
    return made
