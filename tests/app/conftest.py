"""Fixtures for every test of the pages."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st

import gpt2viz
from gpt2viz.app import address, checkpoint_runs, jobs, output, pages, run_cache, server
from gpt2viz.app.parameters import Parameter


@pytest.fixture(autouse=True, scope="module")
def _no_run_of_an_earlier_file() -> None:
    """A run takes the start of its text from one in memory, and its last digits with it."""
    run_cache._runs.clear()
    run_cache.lens.clear()
    st.cache_data.clear()


@pytest.fixture(autouse=True)
def _pages_read_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page reads no parameter that isn't declared to be on it."""
    bind = address._bind

    def checked(parameter: Parameter, *rest: Any) -> dict[str, Any]:
        here = pages.find_page(output.page_outputs().page)
        assert here in parameter.on, f"{parameter.name} isn't declared to be on {here}"
        return bind(parameter, *rest)

    monkeypatch.setattr(address, "_bind", checked)


@pytest.fixture(autouse=True)
def _weights_are_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine isn't given up on."""
    monkeypatch.setattr(jobs, "WAIT_FOR_WEIGHTS", 600)


@pytest.fixture(autouse=True)
def _one_point_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the checkpoints only the one that is looked at is run, however fast this machine is."""
    monkeypatch.setattr(checkpoint_runs, "PATIENCE", 0)


@pytest.fixture(autouse=True)
def _pages_are_on_a_server_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that Streamlit has started by itself shows others nothing."""
    monkeypatch.setattr(server, "_limited", True)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens that each run reads, of those made from here on."""
    made: list[int] = []
    trace = gpt2viz.trace
    monkeypatch.setattr(
        "gpt2viz.trace", lambda m, ids, **rest: made.append(len(ids)) or trace(m, ids, **rest)
    )
    return made
