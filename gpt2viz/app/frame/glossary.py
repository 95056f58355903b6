"""The glossary on the pages: every word at hand, and an entry as its own page has it."""

from __future__ import annotations

from functools import partial

import streamlit as st

from gpt2viz.app import pages, popover, prose
from gpt2viz.app.pages import Page
from gpt2viz.app.terms import TERM, Term, containing


def button(page: Page) -> None:
    """Draw the button, and what it opens: every word with its meaning, first those of the page."""
    popover.button(
        "Words",
        partial(_body, page),
        key="words_panel",
        icon="menu_book",
        help="What the words mean",
    )


def _body(page: Page) -> None:
    wanted = st.text_input(
        "Find a word",
        placeholder="Find a word, such as softmax",
        label_visibility="collapsed",
        key="words_find",
    )
    found = containing(wanted)
    here = [TERM[key] for key in page.words.split() if TERM[key] in found]
    others = [term for term in found if term not in here]
    if not found:
        st.caption("No entry here has that in its name or meaning. Try a shorter word.")
    with st.container(height=420, border=False, key="words_found"):
        for title, terms in (("On this page", here), ("All others", others)):
            if terms:
                entries = (f"**{prose.link(term, term.name)}**: {term.meaning}" for term in terms)
                st.markdown("\n\n".join([f":small[:gray[{title}]]", *entries]))


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
