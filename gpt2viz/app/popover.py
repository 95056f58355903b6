"""A button that opens into something: made once it is open, not before."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from gpt2viz.app.components import browser


def button(
    label: str,
    body: Callable[[], object],
    *,
    key: str,
    icon: str | None = None,
    help: str | None = None,
    of_page: bool = False,
) -> None:
    """Draw the button and, where it is open, what ``body`` draws.

    Opening it runs nothing else of the page again. Where ``body`` shows what is ``of_page``, it is
    drawn after the page that stands open with it, as the button is drawn before.
    """
    if of_page:
        st.session_state[_with_page(key)] = True
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
    with_page = st.session_state.pop(_with_page(key), False)
    if popover.open:
        with popover, st.container(key=f"{key}_body"):
            if with_page:
                st.caption("Ready once the page is drawn.")
                browser.run_again(key=f"{key}_again")
            else:
                body()
    if st.session_state.pop(_left(key), False):
        st.rerun()  # once it is drawn: the browser can't go on from a part that was left empty


def close(key: str) -> None:
    """Close what a button has opened, and run the whole page again. For callbacks inside it."""
    st.session_state[key] = False
    st.session_state[_left(key)] = True


def _left(key: str) -> str:
    return f"_{key}_left"


def _with_page(key: str) -> str:
    return f"_{key}_with_page"
