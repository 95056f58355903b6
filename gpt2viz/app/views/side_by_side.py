"""Side by side: layers, the mask on and off, sentences, heads, edits or models, on one scale."""

from __future__ import annotations

from gpt2viz.app import pages
from gpt2viz.app.frame import controls, page
from gpt2viz.app.views import layers, two_sides


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.SIDE_BY_SIDE)
    what = controls.mode(pages.SIDE_BY_SIDE)
    if what == "layers":
        layers.draw(view)
    else:
        two_sides.draw(view, what)
