"""Scripts that draw nothing: the keyboard's ways, the theme, a reader's answers, another run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from gpt2viz.app.components import mount


def add_keyboard() -> None:
    """Let the keyboard into every popover of the page and along strips that scroll."""
    mount({"script": "page.keyboard"}, key="keyboard")


def is_dark(themes: Mapping[str, str]) -> bool:
    """True on a dark page, which carries its pictures' colours: it runs again as the theme changes.

    ``themes`` go into the browser's storage, which is read when the page is loaded: so it is loaded
    again.
    """
    dark = st.context.theme.type == "dark"
    data = {"script": "page.theme", "dark": dark, "wanted": dict(themes)}
    mount(data, key="theme_watch", on_changed_change=lambda: None)
    return dark


def run_again(key: str) -> None:
    """Run the fragment that this is called in alone, after the page that it was drawn with.

    Streamlit lets the browser ask for it, and answers once the page is done.
    """
    mount({"script": "page.fragment"}, key=key, on_drawn_change=lambda: None)


def keep_progress(data: Mapping[str, Any], *, key: str, received: Callable[[], None]) -> None:
    """Keep a reader's answers and guesses in the browser; ``received`` reads those it had kept."""
    mount({"script": "progress", **data}, key=key, on_found_change=received)
