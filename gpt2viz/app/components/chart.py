"""Bars, curves and points, which the browser draws as SVG from Plotly's JSON.

Plotly's own library takes a browser over a second to load, on every page that has a chart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from gpt2viz.app.clicks import Cell
from gpt2viz.app.components import mount
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Picture
from gpt2viz.pictures.plotly.chart import chart


def draw(
    picture: Picture,
    alt_text: str,
    colors: Palette,
    *,
    key: str,
    choose: Callable[[Cell], None] | None = None,
    **options: Any,
) -> None:
    """Draw a picture with the ``options`` of its kind; screen readers announce ``alt_text``.

    Before the page reruns, ``choose`` is called with a cell whose panel is the first of the clicked
    point's ``customdata``.
    """

    def picked() -> None:
        if choose and (name := st.session_state[key].picked):
            choose(Cell(str(name), 0, 0))

    data = {
        "script": "chart",
        "figure": chart(picture, colors, **options),
        "grid": colors.grid,
        "alt": alt_text,
        "chooses": choose is not None,
    }
    mount(data, key=key, on_picked_change=picked)
