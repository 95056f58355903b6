"""An open session holds no run, and nothing of pages that were left."""

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

#: Parameters that open the largest parts of a page.
MORE = {
    "what_if": {"edits": "off:0.1", "picture": "lines"},
    "side_by_side?differs=text": {"picture": "lines"},
}


def test_open_pages_hold_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the caches hold runs while every page is open."""
    runs_of: dict[str, list[ref[Any]]] = {}
    trace = gpt2viz.trace

    def record(*args: Any, **options: Any) -> Any:
        result = trace(*args, **options)
        runs_of[page].append(ref(result))
        return result

    monkeypatch.setattr("gpt2viz.trace", record)
    visitors = []
    for page in (view for view in VIEWS if view not in ("training", "models")):
        runs_of[page] = []
        run_cache._runs.clear()
        visitors.append(open_page(page, text="the cat sat on the mat", **MORE.get(page, {})))
    st.cache_resource.clear()
    gc.collect()
    assert all(runs_of.values())
    assert [page for page, runs in runs_of.items() if any(run() is not None for run in runs)] == []
    assert len(visitors) == len(runs_of)  # all of them are still open


def test_modules_are_excluded_from_garbage_collection() -> None:
    open_page("attention")
    assert gc.get_freeze_count() > 100_000  # the objects of torch, Plotly and Streamlit


class Cycle:
    """A reference cycle, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_collected_when_idle_or_after_ten_seconds() -> None:
    counts = iter([0, 0, 1, 1, 1, 1, *range(2, 12), 12, 12])  # read again after the collection
    gc.disable()
    try:
        reference, sweeper = ref(Cycle()), garbage.Sweeper(0, counts.__next__)
        assert not sweeper.look(1), "nothing is new"
        assert not sweeper.look(2), "the server is busy"
        assert reference() is not None
        assert sweeper.look(3)
        assert reference() is None
        assert not sweeper.look(30), "nothing is new"
        assert not any(sweeper.look(now) for now in range(30, 40)), "the server is busy"
        assert sweeper.look(40), "after ten seconds"
    finally:
        gc.enable()


def test_reloaded_code_shares_one_garbage_thread() -> None:
    for _ in range(2):
        importlib.reload(garbage).begin()
    assert [thread.name for thread in threading.enumerate()].count("garbage") == 1


def test_streamlit_collects_no_garbage_after_each_rerun() -> None:
    assert st.get_option("runner.postScriptGC") is False


def widgets(visitor: AppTest) -> int:
    """The number of widgets that Streamlit remembers, which has no public name."""
    return len(visitor._session_state._state._new_widget_state.widget_metadata)


def test_left_pages_leave_no_widgets() -> None:
    visitor, counts = open_page("attention"), []
    for page in ("head", "side_by_side", "find", "attention") * 3:
        visitor.switch_page(str(ROOT / PAGES[page])).run()
        counts.append(widgets(visitor))
    assert counts[8:] == counts[4:8]  # the page's own, and same-named ones of others
    assert counts[9] < counts[8]


def test_components_keep_their_click_callbacks() -> None:
    visitor = open_page("attention")
    known = visitor._session_state._state._new_widget_state.widget_metadata
    ids = {part.proto.id for part in visitor.get("bidi_component")}
    assert ids
    assert {name for name in ids if any(f"{name}__events" in other for other in known)} == ids
