"""A button that opens into something: made once it is open, not before."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st


@st.fragment
def button(
    label: str,
    body: Callable[[], object],
    *,
    key: str,
    icon: str | None = None,
    help: str | None = None,
) -> None:
    """Draw the button and, where it is open, what ``body`` draws.

    Opening it runs nothing else of the page again.
    """
    place = st.popover(
        label,
        icon=icon and f":material/{icon}:",
        type="tertiary",
        help=help,
        key=key,
        on_change="rerun",
    )
    if place.open:
        with place, st.container(key=f"{key}_body"):
            body()
    if st.session_state.pop(_left(key), False):
        st.rerun()  # once it is drawn: the browser can't go on from a part that was left empty


def close(key: str) -> None:
    """Close what a button has opened, and run the whole page again. For callbacks inside it."""
    st.session_state[key] = False
    st.session_state[_left(key)] = True


def _left(key: str) -> str:
    return f"_{key}_left"
