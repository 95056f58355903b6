"""The glossary on the pages: the words of each page at hand, and links to single words."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, pages, prose
from gpt2viz.app.pages import Page
from gpt2viz.app.terms import TERM, Term


def words(page: Page) -> None:
    """The words of a page with their meanings, one click away; nothing where it has none."""
    if not page.words:
        return
    with st.popover("Words", type="tertiary", key="menu_words", help="What the words here mean"):
        for key in page.words.split():
            term = TERM[key]
            st.markdown(f"**{prose.link(term, term.name)}**: {term.meaning}")
        st.page_link(
            pages.GLOSSARY.path,
            label="All words and sources",
            icon=":material/menu_book:",
            query_params=address.parameters(),
        )


def entry(term: Term, chosen: bool) -> None:
    """One term as the glossary's page has it; the ``chosen`` one stands out."""
    with st.container(border=chosen, key=f"term_{term.key}", gap=None):
        st.markdown(f"**{term.name}**  \n{term.meaning}")
        used = [page.title for page in pages.PAGES if term.key in page.words.split()]
        notes = [f"On: {', '.join(used)}"] if used else []
        if term.source:
            notes.append(f"Source: {term.source}")
        if notes:
            st.caption(" · ".join(notes))
