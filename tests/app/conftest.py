"""Fixtures for every test of the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import pathsep
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

import gpt2viz
from gpt2viz import settings
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
def _pages_depend_on_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are as on a fast server of our own, however busy this machine is."""
    monkeypatch.setattr(jobs, "WAIT", 600)
    monkeypatch.setattr(checkpoint_runs, "PATIENCE", 0)  # only the checkpoint that is looked at
    monkeypatch.setattr(server, "_limited", True)  # one that Streamlit started shows nothing


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Have the owner list models, by their folders; none is in memory then, nor afterwards."""

    def of_the_owner(*folders: Path) -> None:
        monkeypatch.setenv(settings.MODELS_VARIABLE, pathsep.join(map(str, folders)))
        st.cache_resource.clear()
        st.cache_data.clear()

    yield of_the_owner
    st.cache_resource.clear()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens that each run reads, of those made from here on."""
    made: list[int] = []
    trace = gpt2viz.trace
    monkeypatch.setattr(
        "gpt2viz.trace", lambda m, ids, **rest: made.append(len(ids)) or trace(m, ids, **rest)
    )
    return made
