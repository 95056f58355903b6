"""What Streamlit does for every page anew and comes out the same, done once or at less cost.

And how many pages at a time: see ``turns``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import streamlit as st

from gpt2viz.app import compat, gauges
from gpt2viz.app.pages import Page
from gpt2viz.app.turns import Turns

_SCRIPTS = "_scripts"
_TURNS = Turns()


@lru_cache(maxsize=1)
def begin() -> bool:
    """Spare it from now on, for as long as the process lasts; whether Streamlit let us.

    Call it before the server starts, or with the first page.
    """
    return all(
        (
            compat.copy_places_at_once(),
            compat.know_pages(),
            compat.hand_over_together(),
            compat.find_settings_by_section(),
            compat.find_server_at_once(),
            compat.draw_in(_turn),
        )
    )


@contextmanager
def _turn() -> Iterator[None]:
    with gauges.waiting():
        mine = _TURNS.take()
    try:
        yield
    finally:
        _TURNS.give_back(mine)


def script(of: Page) -> st.Page:
    """A page's script as Streamlit's links take it: a path they look up each time they are drawn.

    It stays with the visitor.
    """
    known: dict[str, st.Page] = st.session_state.setdefault(_SCRIPTS, {})
    if of.path not in known:
        known[of.path] = st.Page(of.path, default=not of.address)
    return known[of.path]
