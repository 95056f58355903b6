"""Side by side: layers, the mask on and off, sentences, heads, edits or models, on one scale."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import pages
from gpt2viz.app.frame import below, controls
from gpt2viz.app.view import View
from gpt2viz.app.views import layers, two_sides


def show() -> None:
    """Draw the page."""
    below.draw(pages.SIDE_BY_SIDE, _below)


def _below(view: View) -> None:
    """What differs is picked, and then drawn."""
    choices = st.container(key="choices", horizontal=True, gap="small", vertical_alignment="center")
    with choices:
        what = controls.mode(pages.SIDE_BY_SIDE)
    if what == "layers":
        layers.draw(view, choices)
    else:
        two_sides.draw(view, what, choices)
