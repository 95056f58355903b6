"""Predict: what comes next, and how the text goes on token by token."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.frame import controls, page
from gpt2viz.app.views import generate, next_token


def show() -> None:
    """Draw the page."""
    writes = address.asked(parameters.PREDICT) == "generate"
    choosing = "" if writes else "Choose a token to see what comes after it."
    view = page.open_page(pages.PREDICT, choosing)
    settings = st.container(
        key="sampling", horizontal=True, vertical_alignment="center", gap="small"
    )
    with settings:
        mode = controls.mode(pages.PREDICT)
        if mode == "next":
            generate.offer()
    draw = {"next": next_token.draw, "generate": generate.draw}
    draw[mode](view, settings)
