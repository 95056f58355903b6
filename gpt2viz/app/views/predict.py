"""Predict: what comes next, and how the text goes on token by token."""

from __future__ import annotations

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.frame import controls, page
from gpt2viz.app.views import generate, next_token


def show() -> None:
    """Draw the page."""
    writes = address.asked(parameters.PREDICT) == "generate"
    choosing = "" if writes else "Choose a token to see what comes after it."
    view = page.open_page(pages.PREDICT, choosing)
    draw = {"next": next_token.draw, "generate": generate.draw}
    draw[controls.mode(pages.PREDICT)](view)
