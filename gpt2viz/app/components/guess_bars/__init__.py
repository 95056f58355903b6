"""Bars that always sum to 1, for a reader to set; and afterwards beside what is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from gpt2viz.app.components import component

_draw = component(__name__, '<div class="guess" role="group"></div>')


def ask(
    title: str,
    names: Sequence[str],
    *,
    key: str,
    expected: Callable[[object], None],
    skipped: Callable[[], None],
) -> None:
    """Draw a bar for each name, and a button to hand them in, another to go on without.

    ``expected`` is called with what the browser sends for a guess, hundredths for each of the
    ``names`` unless somebody else has sent it; ``skipped`` without one.
    """
    _draw(
        key=key,
        data={"title": title, "names": list(names)},
        on_expected_change=lambda: expected(st.session_state[key]["expected"]),
        on_skipped_change=skipped,
    )


def compare(
    title: str, names: Sequence[str], guess: Sequence[int], real: Sequence[float], *, key: str
) -> None:
    """Draw a ``guess`` in hundredths beside the ``real`` shares from 0 to 1, a pair a name."""
    data = {"title": title, "names": list(names), "guess": list(guess), "real": list(real)}
    _draw(key=key, data=data)
