"""The Textbook's guesses, and the place that a chapter opens at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import streamlit as st

from gpt2viz.app import output
from gpt2viz.app.components import mount


def ask_guess(
    title: str,
    names: Sequence[str],
    *,
    key: str,
    expected: Callable[[object], None],
    skipped: Callable[[], None],
) -> None:
    """Draw a bar for each name, a button that submits the guess, and one that skips it.

    ``expected`` is called with what the browser sends for a guess: hundredths for each of
    ``names``, but validate it, as any client can send it. ``skipped`` is called if it is skipped.
    """
    mount(
        key=key,
        data={"script": "guess_bars", "title": title, "names": list(names)},
        on_expected_change=lambda: expected(st.session_state[key]["expected"]),
        on_skipped_change=skipped,
    )


def compare_guess(
    title: str, names: Sequence[str], guess: Sequence[int], real: Sequence[float], *, key: str
) -> None:
    """Draw a ``guess`` in hundredths beside the ``real`` shares from 0 to 1, a pair per name."""
    data = {"title": title, "names": list(names), "guess": list(guess), "real": list(real)}
    mount({"script": "guess_bars", **data}, key=key)


_LAST = "_landing"


class _Landing(NamedTuple):
    """The open chapter, the ``id`` that it was scrolled to, and how many were opened by now.

    ``id`` is "" for the top of the page.
    """

    chapter: str
    id: str
    visit: int


def land(chapter: str, example: str) -> None:
    """Scroll to the ``example`` of a chapter that was just opened, or to its title if that is "".

    From another page, the title needs no scrolling: the page opens at its top.
    """
    last: _Landing = st.session_state.get(_LAST, _Landing("", "", 0))
    arrived = output.page_outputs().arrived
    if arrived or chapter != last.chapter:
        target = example or ("" if arrived else chapter)
        last = st.session_state[_LAST] = _Landing(chapter, target, last.visit + 1)
    mount({"script": "landing", "id": last.id, "visit": last.visit}, key="landing")
