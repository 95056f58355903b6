"""The models that all visitors share: loaded once, let go when another needs the room."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from os import pathsep
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

import gpt2viz
from gpt2viz.app import limits, owner, run_cache
from gpt2viz.model import memory
from gpt2viz.run.key import RunKey
from tests.app.pages import open_page, pictures
from tests.checkpoints import outgrow_the_memory, write_checkpoint


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Three tiny models that the owner lists; no model is in memory."""
    folders = [tmp_path / name for name in "abc"]
    for seed, folder in enumerate(folders):
        write_checkpoint(folder, seed=seed)
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, pathsep.join(map(str, folders)))
    st.cache_resource.clear()
    yield folders
    st.cache_resource.clear()


def test_visitors_share_one_copy(folders: list[Path]) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len({id(model) for model in pool.map(run_cache.load, "aaaa")}) == 1


def test_an_old_model_goes_with_its_runs_when_the_budget_is_reached(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(limits.MODELS_VARIABLE, "0.3")
    size = run_cache.load("a").nbytes
    assert 2 * size < 300_000 < 3 * size
    oldest, used = weakref.ref(run_cache.load("a")), weakref.ref(run_cache.load("b"))
    run_cache.run(RunKey("a", (1, 2, 3)))
    run_cache.reference("a")
    assert RunKey("a", (1, 2, 3)) in run_cache._runs()
    run_cache.load("b")
    run_cache.load("c")
    gc.collect()
    assert oldest() is None
    assert RunKey("a", (1, 2, 3)) not in run_cache._runs()  # it held on to the embedding
    assert used() is not None
    embedding = run_cache.run(RunKey("b", (1, 2, 3))).unembedding
    assert embedding.ctypes.data == used().network.wte.weight.data_ptr()  # type: ignore[union-attr]


def test_the_old_model_goes_before_a_new_one_is_refused(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first: Any = weakref.ref(run_cache.load("a"))
    needed = first().nbytes + memory.run_bytes(first().config)

    def free() -> int:
        gc.collect()
        return needed - (1 if first() else 0)

    monkeypatch.setattr(memory, "free_memory", free)
    run_cache.load("b")
    assert first() is None


def test_too_large_a_model_is_one_message(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    at = open_page("attention", model="a")
    (said,) = [error.value for error in at.error]
    assert "needs 222 kB of memory: 130 kB for its weights" in said.replace("\\", "")
    assert not pictures(at)


def test_a_model_is_ready_again_after_it_was_let_go(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(limits.MODELS_VARIABLE, "0.1")
    before = run_cache.run(RunKey("a", (1, 2, 3))).logits
    run_cache.load("b")
    again = run_cache.run(RunKey("a", (1, 2, 3)))
    assert isinstance(again, gpt2viz.Trace)
    assert (again.logits == before).all()


def test_a_broken_list_of_the_owner_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpt2viz.toml").write_text("models = [")
    monkeypatch.setenv(owner.CONFIG_VARIABLE, str(tmp_path / "gpt2viz.toml"))
    at = open_page("attention")
    (said,) = [error.value for error in at.error]
    assert "gpt2viz.toml: can't be read" in said.replace("\\", "")
    assert not pictures(at)


def test_a_model_larger_than_the_memory_is_one_message_and_bars_no_page(
    folders: list[Path],
) -> None:
    outgrow_the_memory(folders[0])
    assert pictures(open_page("attention", model="b"))
    at = open_page("attention")  # a is the first that the owner lists
    assert ["a needs" in error.value and "free" in error.value for error in at.error] == [True]
    assert not pictures(at)
    assert not open_page("models").error
