"""Whether the page is dark. Pictures carry their colours, so a change has to draw them anew."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from gpt2viz.app.components import component

_watch = component(__name__)


def is_dark(wanted: Mapping[str, str]) -> bool:
    """True on a dark page. Draws nothing, but runs the page again when the theme changes.

    What is ``wanted`` goes into the browser's storage, which is read when the page is loaded: so
    it is loaded again.
    """
    dark = st.context.theme.type == "dark"
    data = {"dark": dark, "wanted": dict(wanted)}
    _watch(key="theme_watch", data=data, on_changed_change=lambda: None)
    return dark
