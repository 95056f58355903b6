"""The result of every renderer: a Plotly figure that knows what it shows."""

from __future__ import annotations

import plotly.graph_objects as go

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Picture


class Figure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """A Plotly figure drawn from a ``picture``, which has its words and its numbers."""

    picture: Picture | None = None
    _sealed: int | None = None

    def seal(self) -> None:
        """Remember how it looks now; see ``unchanged``."""
        self._sealed = hash(self.to_json())

    @property
    def unchanged(self) -> Picture | None:
        """Its picture, where nobody has changed the figure since it was sealed."""
        return self.picture if self._sealed == hash(self.to_json()) else None


def inked(figure: Figure, colors: Palette) -> Figure:
    """The figure with all of its words in ink: Streamlit's theme has them too pale to be read."""
    ink = {"tickfont": {"color": colors.ink}, "title": {"font": {"color": colors.ink}}}
    figure.update_layout(font={"color": colors.ink})
    figure.update_xaxes(ink)
    figure.update_yaxes(ink)
    return figure
