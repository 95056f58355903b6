"""Models too large for memory are refused with numbers, and weights are never memory-mapped."""

from __future__ import annotations

import cProfile
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.anatomy.parameters import parts
from gpt2viz.model import hub, memory, weights
from gpt2viz.model.checkpoint import weight_bytes
from tests.checkpoints import outgrow_the_memory, write_checkpoint
from tests.processes import run_fork

XL = gpt2viz.GPT2Config(n_layer=48, n_head=25, n_embd=1600)


def test_header_gives_the_memory_of_the_weights(folder: Path, tmp_path: Path) -> None:
    assert weight_bytes(folder) == gpt2viz.load_model(folder).nbytes
    write_checkpoint(tmp_path / "other", dtype=torch.float16, tie_word_embeddings=False)
    untied = gpt2viz.load_model(tmp_path / "other")
    assert weight_bytes(tmp_path / "other") == untied.nbytes == weight_bytes(folder) + 420 * 24 * 4


def test_model_that_does_not_fit_is_refused_before_reading(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 200_000)
    monkeypatch.setattr("gpt2viz.model.checkpoint.read", lambda _stored: pytest.fail("it was read"))
    with pytest.raises(gpt2viz.TooLargeError, match=r"^model needs 2\d\d kB of memory: 1\d\d kB"):
        gpt2viz.load_model(folder)


def test_refusal_states_needed_and_free_memory() -> None:
    needed = 4 * 1_557_611_200
    memory.check("gpt2-xl", needed, XL, needed + memory.run_bytes(XL))
    with pytest.raises(gpt2viz.TooLargeError) as refusal:
        memory.check("gpt2-xl", needed, XL, 5_300_000_000)
    assert str(refusal.value) == (
        "gpt2-xl needs 8.54 GB of memory: 6.23 GB for its weights and 2.31 GB for a text of "
        "1,024 tokens. 5.3 GB is free. Close other programs, or choose a smaller model."
    )


def test_run_stays_within_the_estimate(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, list(range(24)), explicit=False)
    size = trace.nbytes
    assert memory.run_bytes(tiny.config) / 3 < size <= memory.run_bytes(tiny.config)


def test_docs_give_the_estimated_sizes() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*?gpt2.*?)` \| (\d.*) \|$", text, re.M)
    assert [name for name, _ in rows] == ["distilgpt2", *hub.RELEASED[:4]]
    for _, row in rows:
        *sizes, count, needed, run = row.split(" | ")
        n_layer, n_head, n_embd = (int(size.replace(",", "")) for size in sizes)
        config = gpt2viz.GPT2Config(n_layer=n_layer, n_head=n_head, n_embd=n_embd)
        n = sum(part.n_parameters for part in parts(config))
        expected = (f"{n:,}", memory.spell(4 * n), memory.spell(memory.run_bytes(config)))
        assert (count, needed, run) == expected


def test_sizes_are_written_with_units() -> None:
    for n_bytes, written in {
        0: "0 bytes",
        999: "999 bytes",
        1000: "1 kB",
        999_600: "1 MB",
        548_105_171: "548 MB",
        6_431_829_964: "6.43 GB",
        2_340_000_000_000: "2,340 GB",
    }.items():
        assert memory.spell(n_bytes) == written


def test_free_memory_respects_the_containers_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8_192_000))
    assert memory.free_memory(tmp_path) == 8_192_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    assert memory.free_memory(tmp_path) == 8_192_000
    (tmp_path / "memory.max").write_text("5000000\n")
    assert memory.free_memory(tmp_path) == 2_000_000
    (tmp_path / "memory.stat").write_text("anon 2000000\ninactive_file 500000\n")
    assert memory.free_memory(tmp_path) == 2_500_000
    (tmp_path / "memory.max").write_text("90000000000\n")
    assert memory.free_memory(tmp_path) == 8_192_000


def test_total_memory_respects_the_containers_limit(tmp_path: Path) -> None:
    lines = Path("/proc/meminfo").read_text().splitlines()
    (total,) = (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
    assert memory.total_memory(tmp_path) == total
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.total_memory(tmp_path) == total
    (tmp_path / "memory.max").write_text("5000000\n")  # a container's
    assert memory.total_memory(tmp_path) == 5_000_000
    assert 0 < memory.free_memory() <= total


def test_a_file_larger_than_the_memory_is_refused_with_the_numbers(folder: Path) -> None:
    """It can't even be mapped, and is refused before it is read."""
    outgrow_the_memory(folder)
    with pytest.raises(gpt2viz.TooLargeError, match=r"^model needs .* for its weights and .* free"):
        gpt2viz.load_model(folder)
    assert weight_bytes(folder) > 2 * memory.total_memory() * 0.99


def test_overwritten_file_leaves_the_loaded_model_intact(folder: Path) -> None:
    """In its own process, which would crash at the first weight if the file were mapped."""
    expected = gpt2viz.trace(gpt2viz.load_model(folder), [5, 6, 7]).logits

    def run_model() -> None:
        model = gpt2viz.load_model(folder)
        (folder / "model.safetensors").open("wb").close()  # as cp begins
        assert_allclose(gpt2viz.trace(model, [5, 6, 7]).logits, expected, atol=1e-6)

    assert run_fork(run_model) == 0


def test_file_changed_while_reading_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = weights.read

    def read_and_touch(stored: Mapping[str, weights.Stored]) -> dict[str, torch.Tensor]:
        result = original(stored)
        os.utime(folder / "model.safetensors", ns=(1, 1))
        return result

    monkeypatch.setattr("gpt2viz.model.checkpoint.read", read_and_touch)
    with pytest.raises(gpt2viz.CheckpointError, match="were changed while they were read"):
        gpt2viz.load_model(folder)


@pytest.mark.slow
def test_loading_is_linear_in_the_layers(tmp_path: Path) -> None:
    """Counted in calls: four times the layers take about four times the work."""

    def calls(n_layer: int) -> int:
        folder = write_checkpoint(tmp_path / str(n_layer), n_layer=n_layer, n_embd=4, n_head=1)
        profile = cProfile.Profile()
        profile.runcall(gpt2viz.load_model, folder)
        return sum(entry.callcount for entry in profile.getstats())

    calls(1)  # fills caches and imports modules
    assert calls(80) < 5 * calls(20)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists the mappings")
def test_no_weights_are_mapped_or_held_twice(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    assert str(folder) not in Path("/proc/self/maps").read_text()
    held = {weight.untyped_storage().data_ptr(): weight for weight in model.network.parameters()}
    assert sum(weight.untyped_storage().nbytes() for weight in held.values()) == model.nbytes
