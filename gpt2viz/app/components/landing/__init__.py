"""Where a reader lands who opens another chapter, or follows a link to an example."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from gpt2viz.app import output
from gpt2viz.app.components import component

_land = component(__name__)

_LAST = "_landing"


class _Landing(NamedTuple):
    """The chapter that is open, where in the page it was begun, and how many were opened by now.

    ``id`` is "" where the top of the page is the right place.
    """

    chapter: str
    id: str
    visit: int


def land(chapter: str, example: str) -> None:
    """Show the ``example`` of a chapter that was just opened; its title, where that is "".

    The title only if another chapter was open before: who comes from elsewhere is at the top.
    """
    last: _Landing = st.session_state.get(_LAST, _Landing("", "", 0))
    arrived = output.shown().arrived
    if arrived or chapter != last.chapter:
        place = example or ("" if arrived else chapter)
        last = st.session_state[_LAST] = _Landing(chapter, place, last.visit + 1)
    _land(key="landing", data={"id": last.id, "visit": last.visit})
