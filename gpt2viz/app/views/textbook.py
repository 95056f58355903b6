"""Textbook: the worked examples of five introductions to GPT-2, interactive."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import pages
from gpt2viz.app.course import contents
from gpt2viz.app.frame import page


def show() -> None:
    """Draw the page."""
    page.open_menu(pages.TEXTBOOK)
    side, chapter = st.columns([1, 4], gap="large")
    with side:
        chosen = contents.choose()
    with chapter:
        contents.show(chosen)
