"""Predict: what comes next, and how the text goes on token by token."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.frame import controls, page_fragment
from gpt2viz.app.view import View
from gpt2viz.app.views import generate, next_token


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.PREDICT, _below, _choosing)


def _choosing() -> str:
    """What it does to choose a token of the sentence."""
    writes = address.asked(parameters.PREDICT) == "generate"
    return "" if writes else "Choose a token to see what comes after it."


def _below(view: View) -> None:
    """What is predicted is picked, and then drawn."""
    settings = st.container(
        key="sampling", horizontal=True, vertical_alignment="center", gap="small"
    )
    with settings:
        mode = controls.mode(pages.PREDICT)
        if mode == "next":
            generate.offer()
    draw = {"next": next_token.draw, "generate": generate.draw}
    draw[mode](view, settings)
