"""Bars, curves and points, which the browser draws as SVG from figures of Plotly's.

Plotly's own library takes a browser over a second to read, on every page that has a chart.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import streamlit as st

from gpt2viz.app.clicks import Cell
from gpt2viz.app.components import mount
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.plotly.base import Figure


def draw(
    figure: Figure,
    alt_text: str,
    colors: Palette,
    *,
    key: str,
    choose: Callable[[Cell], None] | None = None,
) -> None:
    """Draw a figure; those who can't see it hear ``alt_text``.

    Before the page runs again, ``choose`` is called with what is clicked, a cell whose panel is the
    first of the point's ``customdata``.
    """
    data = {
        "script": "chart",
        "figure": json.loads(figure.to_json()),
        "grid": colors.grid,
        "alt": alt_text,
        "chooses": choose is not None,
    }
    mount(data, key=key, on_picked_change=partial(_picked, key, choose))


def _picked(key: str, choose: Callable[[Cell], None] | None) -> None:
    if choose and (name := st.session_state[key].picked):
        choose(Cell(str(name), 0, 0))
