"""A page's fragment below its frame, which reruns alone while the frame stays the same.

Menu, sentence and tokens aren't redrawn then. ``scripts/page.js`` completes their links in the
browser from the address, which holds all choices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import streamlit as st
from streamlit.errors import StreamlitAPIException

from gpt2viz import GPT2VizError
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.frame import sentence, tour
from gpt2viz.app.frame.page import open_page
from gpt2viz.app.pages import Page
from gpt2viz.app.view import View
from gpt2viz.run.key import RunKey

#: The choices that the frame was drawn with, and the words that it linked.
_FRAME = "_frame"
_WITH_FRAME = "_with_frame"


def draw(
    which: Page,
    body: Callable[[View], None],
    choosing: Callable[[], str | None] = lambda: sentence.LIGHT_UP,
) -> None:
    """Draw a page: its frame, and the ``body`` below it.

    ``choosing`` returns the ``choosing`` of ``open_page``. Let neither function reference a run:
    Streamlit keeps them while the page is open.
    """
    view = open_page(which, words := choosing())
    st.session_state[_FRAME] = (*_frame_values(), words), prose.linked()
    st.session_state[_WITH_FRAME] = True
    _draw(view.trace.key, view.query, body, choosing)


@st.fragment
def _draw(
    key: RunKey,
    query: int | None,
    body: Callable[[View], None],
    choosing: Callable[[], str | None],
) -> None:
    drawn_with, linked = st.session_state[_FRAME]
    alone = not st.session_state.pop(_WITH_FRAME, False)
    changed = drawn_with != (*_frame_values(), choosing())
    if changed or (alone and address.frame_has_notes()):
        st.rerun()
    try:
        view = View(run_cache.load(key.model), run_cache.run(key), query)
    except (GPT2VizError, KeyError):
        st.rerun()  # the frame reports what can't be loaded any more
    tour.remember()
    if alone:
        output.begin_below_frame()
        prose.begin(linked)
    with st.container(key="page"):  # spaced as the frame is: see ``theme.css``
        notes = st.empty()
        if alone:  # a fragment that runs alone may write only inside itself
            address.show_notes_in(notes)
        body(view)


def rerun() -> NoReturn:
    """Rerun the fragment if it runs alone, else the whole page."""
    try:
        st.rerun(scope="fragment")
    except StreamlitAPIException:  # the whole page runs
        st.rerun()


def _frame_values() -> tuple[Any, ...]:
    """Return the values of the frame's parameters."""
    return tuple(map(address.peek, parameters.OF_EVERY_PAGE))
