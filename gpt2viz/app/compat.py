"""Streamlit's private names that the app relies on: two wrapped methods, each with a test.

Checked against Streamlit 1.66 and 1.67. If a name is gone, its function changes nothing and returns
False.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.state.session_state import WStates

_WRAPPED = "_wrapped_by_gpt2viz"
#: Prefix and suffix of a component's id in its triggers' id, which Streamlit never lists as active.
_TRIGGERS = "$$STREAMLIT_INTERNAL_KEY_", "__events"


def draw_in(turn: Callable[[], AbstractContextManager[None]]) -> bool:
    """Draw each page and each fragment within ``turn()``; return whether that works.

    Under constant load, drawing two pages at a time gave 1.15 times the throughput of all at once,
    and one at a time 1.10 times that of two (measured separately: docs/soak.md).
    The public way, should this name go: ``with turn():`` around what each script in ``pages/`` and
    each fragment draws.
    """
    run = getattr(ScriptRunner, "_run_script", None)
    if run is None or hasattr(run, _WRAPPED):
        return run is not None

    def run_in_turn(runner: Any, data: Any) -> None:
        with turn():
            run(runner, data)

    setattr(run_in_turn, _WRAPPED, True)
    ScriptRunner._run_script = run_in_turn  # type: ignore[method-assign, assignment]
    return True


def forget_widgets() -> bool:
    """Drop the callbacks of widgets that a page no longer has; return whether that works.

    Streamlit drops such a widget's value but keeps its callbacks and formats for the session, with
    all that they reference: a stranger who opens many pages could fill the memory. The public
    way, should this name go: widgets whose arguments hold texts and sizes only.
    """
    remove = getattr(WStates, "remove_stale_widgets", None)
    if remove is None or hasattr(remove, _WRAPPED):
        return remove is not None

    def remove_and_forget(states: Any, active: frozenset[str], fragments: list[str] | None) -> None:
        remove(states, active, fragments)
        for name, widget in list(states.widget_metadata.items()):
            elsewhere = fragments and widget.fragment_id not in fragments
            owner = name.removeprefix(_TRIGGERS[0]).removesuffix(_TRIGGERS[1])
            if owner not in active and not elsewhere:
                del states.widget_metadata[name]

    setattr(remove_and_forget, _WRAPPED, True)
    WStates.remove_stale_widgets = remove_and_forget  # type: ignore[method-assign, assignment]
    return True


def is_reconnection() -> bool:
    """Return whether this browser was connected before, in a session that may be gone.

    A browser that lost its server names its last session when it reconnects.
    """
    protocols = str(st.context.headers.get("Sec-WebSocket-Protocol") or "").split(",")
    return len(protocols) > 2 and bool(protocols[2].strip())


def theme(name: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the browser storage that makes the pages at ``paths`` "Light" or "Dark".

    Streamlit itself changes the theme only from its own menu, which the app doesn't show.
    """
    return {f"stActiveTheme-{path}-v2": json.dumps(name) for path in paths}
