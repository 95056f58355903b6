"""Glossary: the terms' meanings, the pages that use them, and their sources."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.frame import menu, page
from gpt2viz.app.terms import TERM, TERMS, find_terms
from gpt2viz.labels import pluralize


def show() -> None:
    """Draw the page."""
    page.open_menu(pages.GLOSSARY)
    search, chooser = st.columns([2, 1], vertical_alignment="bottom", gap="large")
    typed = search.text_input(
        "Find a word",
        placeholder="such as softmax or probability",
        **address.text(parameters.FIND_WORD),
    )
    keys = [term.key for term in TERMS]
    with chooser:
        chosen = st.selectbox(
            "Show one",
            format_func=lambda key: TERM[key].name,
            placeholder="Choose a word",
            **address.choice(parameters.TERM, keys),
        )
    matches = find_terms(typed)
    if chosen:
        menu.glossary_entry(TERM[chosen], chosen=True)
    if not matches:
        st.info("No word matches. Try a shorter one.")
    st.markdown(f"#### {pluralize(len(matches), 'words')}")
    rest = [term for term in matches if term.key != chosen]
    half = -(-len(rest) // 2)
    for column, terms in zip(st.columns(2, gap="large"), (rest[:half], rest[half:]), strict=True):
        with column:
            for term in terms:
                menu.glossary_entry(term, chosen=False)
