"""Has a fragment run alone, once the page that it was drawn with is drawn to its end."""

from __future__ import annotations

from gpt2viz.app.components import component

_ask = component(__name__)


def then_again(key: str) -> None:
    """Have the fragment that this is called in run again after the page. Draws nothing.

    Streamlit lets the browser ask for it, and answers once the page is done.
    """
    _ask(key=key, data={}, on_drawn_change=lambda: None)
