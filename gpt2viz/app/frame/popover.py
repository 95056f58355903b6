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
