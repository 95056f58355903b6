"""The menu: every page, in a few groups that stay in one row from a narrow window to a wide one."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address
from gpt2viz.app.components import keyboard
from gpt2viz.app.pages import MENU, Page


def menu(here: Page) -> None:
    """Draw the menu into the current container; ``here`` is the page that is open."""
    st.html(f'<h1 class="page-name">{here.title}</h1>')  # for those who hear the page
    keyboard.popovers()
    st.markdown("**gpt2viz**", width="content")
    for group, pages in MENU.items():
        inside = group == here.group
        if len(pages) == 1:
            _link(pages[0], f"**{group}**" if inside else group)
            continue
        shown = f"**{group}**" if here.title == group else f"**{group}** · {here.title}"
        with st.popover(shown if inside else group, type="tertiary", key=f"menu_{group}"):
            for page in pages:
                name = f"**{page.title}**" if page is here else page.title
                _link(page, f"{name} :gray[:small[{page.what}]]")


def _link(page: Page, shown: str) -> None:
    st.page_link(page.path, label=shown, query_params=address.parameters())
