"""A button that opens into something: made once it is open, not before."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

_STYLE = """
<style>
[data-testid="stPopoverBody"]:has(.st-key-{key}_body) {{ width: {width}rem; max-width: 94vw; }}
.st-key-menu [data-testid="stPopoverButton"]:is(:hover, [aria-expanded="true"]),
.st-key-menu [data-testid="stPopoverButton"]:is(:hover, [aria-expanded="true"]) * {{
  color: var(--st-primary-color);
}}
/* What is open says itself what it is; its button's tip would lie on it. */
body:has([data-testid="stPopoverButton"][aria-expanded="true"]:hover) [role="tooltip"] {{
  display: none;
}}
</style>
"""


@st.fragment
def button(
    label: str,
    body: Callable[[], object],
    *,
    key: str,
    width: int,
    icon: str | None = None,
    help: str | None = None,
) -> None:
    """Draw the button and, where it is open, what ``body`` draws, ``width`` letters wide.

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
    st.html(_STYLE.format(key=key, width=width))
    if place.open:
        with place, st.container(key=f"{key}_body"):
            body()
