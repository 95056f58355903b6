"""Added: a page of another package, in the frame of all pages."""

from __future__ import annotations

import logging

import streamlit as st

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.frame import page
from gpt2viz.app.literal import literal
from gpt2viz.errors import PluginError
from gpt2viz.plugins import blamed

_LOG = logging.getLogger("gpt2viz")


def show() -> None:
    """Draw the page that the address names; one message in its place where that can't be."""
    wanted = address.asked(parameters.ADDED) or ""
    found = next((one for one in pages.added() if one.plugin.name == wanted), None)
    if found is None:
        page.open_menu(pages.ADDED)
        st.info(
            f"No package here has a page {literal(repr(wanted[:60]))}. Install the one that adds "
            "it, or choose another page above.",
            icon=":material/extension_off:",
        )
        return
    view = page.open_page(found)
    try:  # whatever it does, the other pages go on
        draw = found.plugin.load()
        with blamed(lambda error: f"The page “{found.title}” of {found.plugin.by} raised {error}."):
            draw(view)
    except PluginError as error:  # the traceback, for who wrote it, to the log
        _LOG.error("gpt2viz: %s", error, exc_info=error)
        st.error(literal(str(error)), icon=":material/extension_off:")
