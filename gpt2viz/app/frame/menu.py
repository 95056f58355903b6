"""The menu: every page, in one row."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, prose, sparing
from gpt2viz.app.components import bundle, keyboard
from gpt2viz.app.pages import MENU, Page, added


def menu(here: Page) -> None:
    """Draw the menu into the current container; ``here`` is the page that is open."""
    st.html(f'<h1 class="page-name">{here.title}</h1>')  # for those who hear the page
    keyboard.popovers()
    bundle.bring()
    st.markdown("**gpt2viz**", width="content")
    chosen = address.parameters()
    for page in (*MENU, *added()):
        name = f"**{page.title}**" if page is here else page.title
        asked, what = chosen | page.asks, prose.tip(page.what)
        st.page_link(sparing.script(page), label=name, help=what, query_params=asked)
