"""Light or dark: a switch for projectors. The browser remembers it for every page."""

from __future__ import annotations

from urllib.parse import urlsplit

import streamlit as st

from gpt2viz.app import compat, pages
from gpt2viz.app.components.theme_watch import is_dark


def switch() -> bool:
    """Draw the switch; whether the page is dark."""
    dark = st.context.theme.type == "dark"
    wanted = "Light" if dark else "Dark"
    asked = st.button(
        f"{wanted} page",
        icon=f":material/{wanted.lower()}_mode:",
        type="tertiary",
        key="theme",
        help=f"{wanted}: for this browser, on every page",
    )
    return is_dark(compat.theme(wanted, _paths()) if asked else {})


def _paths() -> list[str]:
    """The pages' paths on the server."""
    above = urlsplit(st.context.url or "/").path.rpartition("/")[0]
    return [f"{above}/{page.address}" for page in (*pages.PAGES, pages.ADDED)]
