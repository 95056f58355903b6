"""What every renderer gives back: a Plotly figure that knows what it shows."""

from __future__ import annotations

import plotly.graph_objects as go

from gpt2viz.pictures.picture import Picture


class Figure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """A Plotly figure drawn from a ``picture``, which has its words and its numbers."""

    picture: Picture | None = None
