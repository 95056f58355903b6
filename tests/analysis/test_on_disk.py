"""The cache on disk: for identical weights only, of bounded size, and skipped if it fails."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_equal

import gpt2viz
from gpt2viz import settings
from gpt2viz.analysis import on_disk
from gpt2viz.analysis.composition import composition
from gpt2viz.analysis.on_disk import cached_composition, cached_scores, load_or_make
from gpt2viz.analysis.weight_scores import weight_scores
from tests.checkpoints import write_checkpoint


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(settings.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


class Maker:
    """Computes numbers, and counts its calls."""

    def __init__(self, *sizes: int) -> None:
        self.sizes, self.times = sizes or (3,), 0

    def __call__(self) -> on_disk.Arrays:
        self.times += 1
        return {str(n): np.full(n, np.pi) for n in self.sizes}


def test_cached_numbers_equal_computed_ones(tiny: gpt2viz.Model, cache: Path) -> None:
    shares: list[float] = []
    for _ in range(2):
        assert_equal(cached_scores(tiny, shares.append), weight_scores(tiny))
        result, expected = cached_composition(tiny, shares.append), composition(tiny)
        for measure in ("ratio", "ratio_z", "kernel", "kernel_z"):
            assert_equal(getattr(result, measure), getattr(expected, measure))
    assert len(shares) == 12 + 3, "the second time nothing is worked out"
    assert len(list(cache.iterdir())) == 2


def test_other_weights_sizes_code_or_names_are_not_shared(
    tiny: gpt2viz.Model, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Maker()
    write_checkpoint(tmp_path / "other", seed=1)  # all else is the same
    write_checkpoint(tmp_path / "same")
    config = tmp_path / "same" / "config.json"
    config.write_text(config.read_text().replace('"n_head": 4', '"n_head": 3'))
    others = [gpt2viz.load_model(tmp_path / name) for name in ("other", "same")]
    load_or_make(tiny, "some", make)
    load_or_make(tiny, "some", make)
    assert make.times == 1
    for n, model in enumerate(others, start=2):
        load_or_make(model, "some", make)
        assert make.times == n
    load_or_make(tiny, "others", make)
    (tmp_path / "code.py").write_text("another version")
    monkeypatch.setattr(on_disk, "_CODE", [tmp_path / "code.py"])
    load_or_make(tiny, "some", make)
    assert make.times == 5
    assert len(list(cache.iterdir())) == 5


def test_weights_without_a_matching_file_are_not_cached(cache: Path, tmp_path: Path) -> None:
    make = Maker()
    model = gpt2viz.load_model(write_checkpoint(tmp_path / "model"))
    with (tmp_path / "model" / "model.safetensors").open("ab") as file:
        file.write(b" ")
    in_memory = gpt2viz.Model("by hand", model.config, model.network, model.tokenizer)
    for _ in range(2):
        load_or_make(model, "some", make)
        load_or_make(in_memory, "some", make)
    assert make.times == 4
    assert not cache.exists()
    assert torch.is_tensor(model.network.wte.weight)


def test_broken_file_is_made_again(tiny: gpt2viz.Model, cache: Path) -> None:
    make = Maker(1000)
    load_or_make(tiny, "some", make)
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for broken in (b"", b"no numbers", whole[:500], bytes(flipped)):
        path.write_bytes(broken)
        assert_equal(load_or_make(tiny, "some", make), make())
        assert path.read_bytes() == whole
    assert make.times == 1 + 2 * 4


def test_unwritable_cache_is_skipped(
    tiny: gpt2viz.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Maker()
    (tmp_path / "file").write_text("no folder")
    for folder in ("", str(tmp_path / "file")):
        monkeypatch.setenv(settings.CACHE_VARIABLE, folder)
        assert_equal(load_or_make(tiny, "some", make), {"3": np.full(3, np.pi)})
    assert make.times == 2


def test_least_recently_used_file_is_removed_first(
    tiny: gpt2viz.Model, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "LARGEST", 20_000)
    makes = [Maker(1000) for _ in range(3)]
    for n in (0, 1, 0, 2, 0):  # 8 kB each: two have room
        load_or_make(tiny, str(n), makes[n])
        for path in cache.iterdir():  # a second later; clocks are coarse
            os.utime(path, ns=2 * (path.stat().st_mtime_ns - 10**9,))
    assert [make.times for make in makes] == [1, 1, 1]
    assert len(list(cache.iterdir())) == 2
    load_or_make(tiny, "1", makes[1])
    assert makes[1].times == 2
    load_or_make(tiny, "large", Maker(3000))
    assert sum(path.stat().st_size for path in cache.iterdir()) <= 20_000


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(settings.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert settings.cache() == tmp_path / "gpt2viz"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert settings.cache() == Path.home() / ".cache" / "gpt2viz"
    monkeypatch.setattr(settings, "has_home", lambda: False)
    assert settings.cache() is None
