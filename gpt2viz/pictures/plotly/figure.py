"""Matrices as Plotly figures, in the colours of a light or a dark page."""

from __future__ import annotations

import plotly.graph_objects as go

from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Heatmaps, Picture
from gpt2viz.pictures.plotly.matrices import draw_heatmaps, draw_thumbnails


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


def render(picture: Heatmaps | Thumbnails, colors: Palette) -> Figure:
    """Matrices drawn in these colours, with all of their words in ink."""
    if isinstance(picture, Heatmaps):
        made = Figure(draw_heatmaps(picture, colors))
    else:
        made = Figure(draw_thumbnails(picture, colors))
    made.picture = picture
    made.update_layout(font_color=colors.ink, plot_bgcolor="rgba(0,0,0,0)")
    return made
