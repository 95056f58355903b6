"""Sweeps begin by themselves where they cost little, and else where somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from gpt2viz import Model
from gpt2viz.app import jobs, prose
from gpt2viz.app.jobs import Search, Sweep

#: Seconds that a page waits for numbers before it is drawn without them.
WAIT = 1.5
#: Operations up to which sweeps begin by themselves: half a minute on two slow cores.
AT_ONCE = 2e12


def begin(
    wanted: Sequence[Search], model: Model, cost: float, key: str, *, offer: str, until: str
) -> tuple[list[Sweep], bool]:
    """Sweeps on their way, and True; or, where they ``cost`` too many operations, an ``offer``.

    That is a button, which says ``until`` beside it what is shown before anybody asks.
    """
    found = [jobs.sweep_of(one) for one in wanted]
    asked = f"_{key}_{hash(tuple(wanted[:1]))}"
    if cost <= AT_ONCE or st.session_state.get(asked) or any(one.share for one in found):
        return jobs.begin_sweeps(wanted, model, WAIT), True
    with st.container(horizontal=True, vertical_alignment="center"):
        prose.caption(until, width="content")
        st.button(
            offer,
            icon=":material/play_arrow:",
            help="It takes minutes on a model of this size and a text of this length.",
            on_click=st.session_state.__setitem__,
            args=(asked, True),
            key=f"{key}_offer",
        )
    return found, False
