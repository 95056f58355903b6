"""A visitor whose server ended, and who was let in by another process: the view comes back.

The address holds it, and the browser has the address. What else the old process kept is gone, and
so is the step that the new one heard first: the page is drawn from its address then.
"""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import compat

_KNOWN = "_known"
SAYS = (
    "The connection was lost and is back. The page shows what its address says: please repeat your "
    "last step, and enter a sentence again that is too long for the address."
)


def welcome() -> None:
    """Say once to whoever comes back into a new session that the view was kept, and by what."""
    if st.session_state.get(_KNOWN):
        return
    st.session_state[_KNOWN] = True
    if compat.came_back():
        st.toast(SAYS, icon=":material/sync:", duration="long")
