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
def _clear_run_caches() -> None:
    """A run reuses the prefix of a run in memory, and so its last digits."""
    run_cache._runs.clear()
    run_cache.lens.clear()
    st.cache_data.clear()


@pytest.fixture(autouse=True)
def _check_declared_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page reads no parameter that isn't declared to be on it."""
    bind = address._bind

    def checked(parameter: Parameter, *rest: Any) -> dict[str, Any]:
        here = pages.find_page(output.page_outputs().page)
        assert here in parameter.on, f"{parameter.name} isn't declared to be on {here}"
        return bind(parameter, *rest)

    monkeypatch.setattr(address, "_bind", checked)


@pytest.fixture(autouse=True)
def _ignore_machine_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages behave as on a fast server of gpt2viz's own, however busy this machine is."""
    monkeypatch.setattr(jobs, "WAIT", 600)
    monkeypatch.setattr(checkpoint_runs, "PATIENCE", 0)  # only the chosen checkpoint
    monkeypatch.setattr(server, "_limited", True)  # pages are blank on Streamlit's own server


@pytest.fixture
def list_models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Set the folders of the owner's models; models in memory are dropped then and afterwards."""

    def set_folders(*folders: Path) -> None:
        monkeypatch.setenv(settings.MODELS_VARIABLE, pathsep.join(map(str, folders)))
        st.cache_resource.clear()
        st.cache_data.clear()

    yield set_folders
    st.cache_resource.clear()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens of each run made during the test."""
    lengths: list[int] = []
    trace = gpt2viz.trace
    monkeypatch.setattr(
        "gpt2viz.trace", lambda m, ids, **rest: lengths.append(len(ids)) or trace(m, ids, **rest)
    )
    return lengths
