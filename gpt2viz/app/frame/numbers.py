"""Numbers: every picture of the page as a table, for those who can't see it or want to read it."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import output, popover
from gpt2viz.labels import counted


def button() -> None:
    """Draw the button, and what it opens; no table is made before it is asked for."""
    popover.button(
        "Numbers",
        _body,
        key="numbers",
        icon="table",
        help="The numbers of every picture on this page, as a table",
        of_page=True,
    )


def _body() -> None:
    found = output.shown()
    names = list(found.pictures)
    if not names:
        st.caption(
            "This page has no picture: its numbers are in its tables."
            if found.tables
            else "Nothing is drawn on this page yet."
        )
        return
    name: str = st.selectbox("Picture", names, key="numbers_picture")
    count = output.numbers_of(name)
    st.caption(f"{counted(count, 'numbers')}, one per row. *Save* exports them as a file.")
