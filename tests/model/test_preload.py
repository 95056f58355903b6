"""The models loaded before a process is forked, and how much of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

import gpt2viz
from gpt2viz.model import preload
from tests.checkpoints import write_checkpoint

STEPS = (1, 20)


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded, as at a server's start."""
    monkeypatch.setattr(preload, "_loaded", {})


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """A model with the checkpoints of its training, one without, and one that can't be read."""
    write_checkpoint(tmp_path / "grown", seed=20)
    for step in STEPS:
        write_checkpoint(tmp_path / "grown" / "steps" / f"step-{step}", seed=step)
    write_checkpoint(tmp_path / "plain")
    write_checkpoint(tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"junk")
    return {name: tmp_path / name for name in ("broken", "grown", "plain")}


def preloaded(folders: dict[str, Path]) -> list[tuple[str, int | None]]:
    """The loaded models and steps of these folders."""
    requests = [(name, step) for name in folders for step in (None, *STEPS)]
    return [(name, step) for name, step in requests if preload.find(name, folders[name], step)]


def test_models_are_loaded_with_their_checkpoints(folders: dict[str, Path]) -> None:
    preload.load(folders, 10**9)
    assert preloaded(folders) == [("grown", None), ("grown", 1), ("grown", 20), ("plain", None)]
    for step in STEPS:
        shared = preload.find("grown", folders["grown"], step)
        assert shared is not None
        alone = gpt2viz.load_steps(folders["grown"], "grown")[step]
        assert shared.name == alone.name
        for a, b in zip(shared.network.parameters(), alone.network.parameters(), strict=True):
            assert_array_equal(a.detach().numpy(), b.detach().numpy())
    assert preload.find("other", folders["grown"]) is None
    assert preload.find("grown", folders["plain"]) is None


@pytest.mark.parametrize(
    ("rooms", "loaded"),
    [
        (0.5, []),
        (1.5, [("grown", None)]),
        (3.5, [("grown", None), ("plain", None)]),  # not a part of the checkpoints
        (4, [("grown", None), ("grown", 1), ("grown", 20), ("plain", None)]),
    ],
)
def test_models_load_first_and_checkpoints_all_or_none(
    folders: dict[str, Path], rooms: float, loaded: list[tuple[str, int | None]]
) -> None:
    nbytes = gpt2viz.load_model(folders["plain"]).nbytes
    preload.load(folders, int(rooms * nbytes))
    assert preloaded(folders) == loaded


def test_large_checkpoints_are_not_preloaded(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preload, "STEPS", 2 * gpt2viz.load_model(folders["grown"]).nbytes - 1)
    preload.load(folders, 10**9)
    assert preloaded(folders) == [("grown", None), ("plain", None)]
