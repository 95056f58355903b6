"""What stands below a page's frame: what is chosen there and changes nothing above runs it alone.

Menu, sentence and tokens stay as they are then. Their links are completed in the browser, by
``components/keyboard``: what is chosen is in the address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import streamlit as st

from gpt2viz import GPT2VizError
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.frame import examples
from gpt2viz.app.frame.page import View
from gpt2viz.pictures.palette import Palette
from gpt2viz.run.key import RunKey

_FRAME = "_frame"
_WITH_FRAME = "_with_frame"


class _Frame(NamedTuple):
    """What the frame was drawn from, what it says of a head, and what it left for the page."""

    chosen: tuple[Any, ...]
    said: str
    shown: output.Shown
    linked: frozenset[str]


def draw(view: View, below: Callable[[View], None]) -> None:
    """Draw what is ``below`` the frame; a function of a module: it stays while the page is open."""
    said = examples.says(view.trace)
    st.session_state[_FRAME] = _Frame(_chosen(), said, output.so_far(), prose.so_far())
    st.session_state[_WITH_FRAME] = True
    _draw(view.trace.key, view.query, view.colors, below)


@st.fragment
def _draw(key: RunKey, query: int | None, colors: Palette, below: Callable[[View], None]) -> None:
    frame: _Frame = st.session_state[_FRAME]
    if not st.session_state.pop(_WITH_FRAME, False):
        address.forget_notes()
    if frame.chosen != _chosen():
        st.rerun()
    try:
        view = View(run_cache.load(key.model), run_cache.run(key), query, colors)
    except (GPT2VizError, KeyError):
        st.rerun()  # the frame tells what can't be loaded any more
    if frame.said != examples.says(view.trace):
        st.rerun()
    output.back_to(frame.shown)
    prose.back_to(frame.linked)
    below(view)


def _chosen() -> tuple[Any, ...]:
    """All that is chosen of what the frame shows."""
    return tuple(map(address.known, parameters.OF_EVERY_PAGE))
