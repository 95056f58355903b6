"""Scripts that draw nothing: keyboard access, the theme, a reader's answers, a rerun."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from gpt2viz.app.components import mount


def add_keyboard() -> None:
    """Make the page's popovers and scrolling strips reachable by keyboard."""
    mount({"script": "page.keyboard"}, key="keyboard")


def is_dark(themes: Mapping[str, str]) -> bool:
    """Return whether the page is dark; it reruns when the theme, and so its colours, change.

    ``themes`` go into the browser's storage, which is read as a page loads, so the page is
    reloaded.
    """
    dark = st.context.theme.type == "dark"
    data = {"script": "page.theme", "dark": dark, "themes": dict(themes)}
    mount(data, key="theme_watch", on_changed_change=lambda: None)
    return dark


def run_again(key: str) -> None:
    """Rerun the fragment that this is called in, after the page that it was drawn with.

    The browser requests it, and Streamlit runs it once the page is done.
    """
    mount({"script": "page.fragment"}, key=key, on_drawn_change=lambda: None)


def keep_progress(data: Mapping[str, Any], *, key: str, received: Callable[[], None]) -> None:
    """Store a reader's answers and guesses in the browser; ``received`` reads stored ones."""
    mount({"script": "progress", **data}, key=key, on_stored_change=received)
