"""The menu: links to every page in one row, and the buttons at its end."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.app import address, compat, output, pages, parameters, popover, prose
from gpt2viz.app.components import mount
from gpt2viz.app.frame import save, tour
from gpt2viz.app.pages import MENU, Page, added_pages
from gpt2viz.app.terms import TERM, Term, find_terms
from gpt2viz.pictures.palette import palette

_SCRIPTS = "_scripts"


def draw_menu(here: Page) -> None:
    """Draw the menu into the current container; ``here`` is the page that is open."""
    st.html(f'<h1 class="page-name">{here.title}</h1>')  # for screen readers
    mount({"script": "page.keyboard"}, key="keyboard")  # popovers and strips by keyboard
    st.markdown("**gpt2viz**&ensp;", width="content")
    chosen = address.parameters()
    for page in (*MENU, *added_pages()):
        name = f"**{page.title}**" if page is here else page.title
        query_params, what = chosen | page.asks, prose.tip(page.what)
        st.page_link(_script(page), label=name, help=what, query_params=query_params)


def _script(of: Page) -> st.Page:
    """Return a page's script for Streamlit's links, cached in the session.

    Given a path, a link would look it up each time that it is drawn.
    """
    scripts: dict[str, st.Page] = st.session_state.setdefault(_SCRIPTS, {})
    if of.path not in scripts:
        scripts[of.path] = st.Page(of.path, default=not of.address)
    return scripts[of.path]


def _draw_words(page: Page) -> None:
    """Draw the glossary: all terms with their meanings, the page's first."""
    typed = st.text_input(
        "Find a word",
        placeholder="Find a word, such as softmax",
        label_visibility="collapsed",
        key="words_find",
    )
    matches = find_terms(typed)
    here = [TERM[key] for key in page.words.split() if TERM[key] in matches]
    others = [term for term in matches if term not in here]
    if not matches:
        st.caption("No word matches. Try a shorter one.")
    with st.container(height=420, border=False, key="words_found"):
        for title, terms in (("On this page", here), ("All others", others)):
            if terms:
                entries = (f"**{prose.link(term, term.name)}**: {term.meaning}" for term in terms)
                st.markdown("\n\n".join([f":small[:gray[{title}]]", *entries]))


def glossary_entry(term: Term, chosen: bool) -> None:
    """Draw one term for the glossary's page; the ``chosen`` one stands out."""
    with st.container(border=chosen, key=f"term_{term.key}", gap=None):
        st.markdown(f"**{term.name}**  \n{term.meaning}")
        used = [page.title for page in pages.PAGES if term.key in page.words.split()]
        notes = [f"On: {', '.join(used)}"] if used else []
        if term.source:
            notes.append(f"Source: {term.source}")
        if notes:
            st.caption(" · ".join(notes))


def theme_switch() -> bool:
    """Draw the switch between light and dark; return whether the page is dark.

    The browser remembers it for every page: its storage is read as a page loads, so the page is
    reloaded. It reruns when the theme, and so its colours, change.
    """
    dark = st.context.theme.type == "dark"
    other = "Light" if dark else "Dark"
    clicked = st.button(
        other,
        icon=f":material/{other.lower()}_mode:",
        type="tertiary",
        key="theme",
        help=f"A {other.lower()} background on every page, in this browser",
    )
    themes = compat.theme(other, _page_paths()) if clicked else {}
    data = {"script": "page.theme", "dark": dark, "themes": themes}
    mount(data, key="theme_watch", on={"changed": None})
    return dark


def _page_paths() -> list[str]:
    """Return the pages' paths on the server."""
    above = urlsplit(st.context.url or "/").path.rpartition("/")[0]
    return [f"{above}/{page.address}" for page in (*pages.PAGES, pages.ADDED)]


#: Apart from ``theme.css``, where it would be a rule for the whole body, which browsers check
#: against all that a page draws, again and again.
_PRESENTING = Path(__file__).parents[1] / "presenting.css"


def present_button() -> None:
    """Draw the button that enlarges the page and hides its controls, or ends that."""
    on = address.read(address.switch(parameters.PRESENT))
    if on:
        st.html(_PRESENTING)
    st.button(
        "End" if on else "Present",
        icon=":material/present_to_all:",
        type="tertiary",
        key="_present",  # one button, which keeps the keyboard's focus
        help="Everything as it was" if on else "Large labels and no controls, to show others",
        on_click=address.put,
        args=(parameters.PRESENT, not on),
    )


def draw_tools(which: Page) -> DeltaGenerator:
    """Draw the buttons at the menu's end, and set the page's colours by the theme switch.

    Returns the slot for ``present_button``, which is drawn once the address has been read.
    """
    with st.container(
        key="tools", horizontal=True, vertical_alignment="center", width="content", gap=None
    ):
        popover.button(
            "Words",
            partial(_draw_words, which),
            key="words_panel",
            icon="menu_book",
            help="The words of this page and what they mean",
        )
        popover.button(
            "Numbers",
            save.draw_numbers,
            key="numbers",
            icon="table",
            help="The numbers behind each picture on this page, as a table",
            of_page=True,
        )
        popover.button(
            "Save",
            save.draw_save,
            key="save",
            icon="download",
            help="This page's pictures and tables, the run, the page, or a link",
            of_page=True,
        )
        sharing = st.container(width="content")
        tour.offer(which)
        output.page_outputs().colors = palette(theme_switch())
        with sharing:
            popover.button(
                "Share",
                save.draw_share,
                key="share",
                icon="share",
                help="A link to this view, and the chosen head as a slide",
                of_page=True,
            )
        return st.container(width="content")
