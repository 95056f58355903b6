"""Whether the page is dark. Pictures carry their colours, so a change has to draw them anew."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app.components import component

_watch = component(__name__)


def is_dark() -> bool:
    """True on a dark page. Draws nothing, but runs the page again when the theme changes."""
    dark = st.context.theme.type == "dark"
    _watch(key="theme_watch", data={"dark": dark}, on_changed_change=lambda: None)
    return dark
