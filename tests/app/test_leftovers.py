"""A visitor who stays holds on to no run, and leaves nothing of former pages behind."""

from __future__ import annotations

import gc
import importlib
import threading
from typing import Any
from weakref import ref

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app import garbage, run_cache
from tests.app.pages import PAGES, ROOT, VIEWS, open_page

#: What opens the parts of a page that hold the most.
OPENED = {
    "what_if": {"edits": "off:0.1", "picture": "lines"},
    "side_by_side?differs=text": {"picture": "lines"},
}


def test_a_page_that_is_open_holds_on_to_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody does but the caches, while every page is open."""
    made: dict[str, list[ref[Any]]] = {}
    trace = gpt2viz.trace

    def noted(*args: Any, **options: Any) -> Any:
        result = trace(*args, **options)
        made[page].append(ref(result))
        return result

    monkeypatch.setattr("gpt2viz.trace", noted)
    visitors = []
    for page in (view for view in VIEWS if view not in ("training", "models")):
        made[page] = []
        run_cache._runs.clear()
        visitors.append(open_page(page, text="the cat sat on the mat", **OPENED.get(page, {})))
    st.cache_resource.clear()
    gc.collect()
    assert all(made.values())
    assert [page for page, runs in made.items() if any(run() is not None for run in runs)] == []
    assert len(visitors) == len(made)  # and they are still there


def test_garbage_is_not_looked_for_among_the_modules() -> None:
    open_page("attention")
    assert gc.get_freeze_count() > 100_000  # what torch, Plotly and Streamlit are made of


class Cycle:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_collected_once_all_is_quiet_and_on_a_busy_server_in_the_end() -> None:
    made = iter([0, 0, 1, 1, 1, 1, *range(2, 12), 12, 12])  # asked again after it was collected
    gc.disable()
    try:
        left, sweeper = ref(Cycle()), garbage.Sweeper(0, made.__next__)
        assert not sweeper.look(1), "nothing is new"
        assert not sweeper.look(2), "somebody is busy"
        assert left() is not None
        assert sweeper.look(3)
        assert left() is None
        assert not sweeper.look(30), "nothing is new"
        assert not any(sweeper.look(now) for now in range(30, 40)), "somebody is busy"
        assert sweeper.look(40), "it has waited for ten seconds"
    finally:
        gc.enable()


def test_one_thread_looks_for_it_however_often_the_code_is_loaded() -> None:
    for _ in range(2):
        importlib.reload(garbage).begin()
    assert [thread.name for thread in threading.enumerate()].count("garbage") == 1


def test_streamlit_collects_no_garbage_after_each_rerun() -> None:
    assert st.get_option("runner.postScriptGC") is False


def widgets(visitor: AppTest) -> int:
    """The number of widgets that Streamlit remembers, which it tells nobody."""
    return len(visitor._session_state._state._new_widget_state.widget_metadata)


def test_pages_that_are_gone_leave_no_widgets_behind() -> None:
    visitor, counts = open_page("attention"), []
    for page in ("head", "side_by_side", "find", "attention") * 3:
        visitor.switch_page(str(ROOT / PAGES[page])).run()
        counts.append(widgets(visitor))
    assert counts[8:] == counts[4:8]  # those of a page, and of others what one of its own is called
    assert counts[9] < counts[8]


def test_what_a_page_draws_keeps_the_callbacks_of_its_clicks() -> None:
    visitor = open_page("attention")
    known = visitor._session_state._state._new_widget_state.widget_metadata
    ids = {part.proto.id for part in visitor.get("bidi_component")}
    assert ids
    assert {name for name in ids if any(f"{name}__events" in other for other in known)} == ids
