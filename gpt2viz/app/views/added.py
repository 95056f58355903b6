"""Added: a page of another package, in the frame of all pages."""

from __future__ import annotations

import logging

import streamlit as st

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.frame import page
from gpt2viz.app.literal import literal
from gpt2viz.errors import PluginError
from gpt2viz.labels import sentence
from gpt2viz.plugins import guard

_LOG = logging.getLogger("gpt2viz")


def show() -> None:
    """Draw the page that the address names, or one message if that fails."""
    name = address.raw(parameters.ADDED) or ""
    shown = next((added for added in pages.added_pages() if added.plugin.name == name), None)
    if shown is None:
        page.open_menu(pages.ADDED)
        st.info(
            sentence("added.missing", name=literal(repr(name[:60]))),
            icon=":material/extension_off:",
        )
        return
    view = page.open_page(shown)
    try:  # its errors must not break the other pages
        draw = shown.plugin.load()
        with guard(lambda error: f"The page “{shown.title}” of {shown.plugin.by} raised {error}."):
            draw(view)
    except PluginError as error:  # the log gets the traceback, for its author
        _LOG.error("gpt2viz: %s", error, exc_info=error)
        st.error(literal(str(error)), icon=":material/extension_off:")
