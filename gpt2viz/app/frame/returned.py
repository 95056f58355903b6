"""A visitor whose server ended, and who was let in by another process: nothing of a view is lost.

The address holds it, and the browser has the address. What the old process kept is gone.
"""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import compat

_KNOWN = "_known"
SAYS = (
    "The connection was lost and is back. The page shows what its address says; a sentence that "
    "is too long for the address has to be entered again."
)


def welcome() -> None:
    """Say once to whoever comes back into a new session that the view was kept, and by what."""
    if st.session_state.get(_KNOWN):
        return
    st.session_state[_KNOWN] = True
    if compat.came_back():
        st.toast(SAYS, icon=":material/sync:", duration="long")
