"""A popover whose content is drawn only while it is open."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from gpt2viz.app.components import mount


def button(
    label: str,
    body: Callable[[], object],
    *,
    key: str,
    icon: str | None = None,
    help: str | None = None,
    of_page: bool = False,
) -> None:
    """Draw the button and, while it is open, what ``body`` draws.

    Opening it reruns nothing else of the page. The button is drawn before the page's outputs, so a
    ``body`` that shows them (``of_page``) is drawn after the page if it is open at the time.
    """
    if of_page:
        st.session_state[_with_page_key(key)] = True
    _draw(label, body, key, icon, help)


@st.fragment
def _draw(
    label: str, body: Callable[[], object], key: str, icon: str | None, help: str | None
) -> None:
    popover = st.popover(
        label,
        icon=icon and f":material/{icon}:",
        type="tertiary",
        help=help,
        key=key,
        on_change="rerun",
    )
    with_page = st.session_state.pop(_with_page_key(key), False)
    if popover.open:
        with popover, st.container(key=f"{key}_body"):
            if with_page:
                st.caption("Ready once the page is drawn.")
                # The browser requests this fragment again, which Streamlit runs after the page.
                mount({"script": "page.fragment"}, key=f"{key}_again", on={"drawn": None})
            else:
                body()
    if st.session_state.pop(_left_key(key), False):
        st.rerun()  # after drawing it: the browser can't update an empty fragment


def close(key: str) -> None:
    """Close a popover, and rerun the whole page. For callbacks inside it."""
    st.session_state[key] = False
    st.session_state[_left_key(key)] = True


def _left_key(key: str) -> str:
    return f"_{key}_left"


def _with_page_key(key: str) -> str:
    return f"_{key}_with_page"
