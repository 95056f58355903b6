"""Numbers: every picture of the page as a table, for those who can't see it or want to read it."""

from __future__ import annotations

import streamlit as st

from gpt2viz.ui import show

_STYLE = """
<style>
[data-testid="stPopoverBody"]:has(.st-key-numbers_body) { width: 34rem; max-width: 94vw; }
</style>
"""


@st.fragment
def button() -> None:
    """Draw the button, and what it opens; no table is made before it is asked for."""
    opened = st.popover(
        "Numbers",
        icon=":material/table:",
        type="tertiary",
        help="The numbers of every picture on this page, as a table",
        key="numbers",
        on_change="rerun",
    )
    st.html(_STYLE)
    if not opened.open:
        return
    with opened, st.container(key="numbers_body"):
        found = show.shown()
        names = [*found.pictures, *found.numbers]
        if not names:
            st.caption(
                "This page has no picture: its numbers are in its tables."
                if found.tables
                else "Nothing is drawn on this page yet."
            )
            return
        name: str = st.selectbox("Picture", names, key="numbers_picture")
        count = show.numbers_of(name)
        st.caption(f"{count:,} numbers, one row each. *Save* has them as a file.")
