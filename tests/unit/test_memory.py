"""What doesn't fit is refused with the numbers, and weights stay in their file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import gpt2viz
from gpt2viz import hub, memory
from gpt2viz.anatomy.parameters import parts
from gpt2viz.checkpoint import weight_bytes
from tests.checkpoints import write_checkpoint

XL = gpt2viz.GPT2Config(n_layer=48, n_head=25, n_embd=1600)


def test_the_header_tells_what_the_weights_will_take(folder: Path, tmp_path: Path) -> None:
    assert weight_bytes(folder) == gpt2viz.load_model(folder).nbytes
    write_checkpoint(tmp_path / "other", dtype=torch.float16, tie_word_embeddings=False)
    untied = gpt2viz.load_model(tmp_path / "other")
    assert weight_bytes(tmp_path / "other") == untied.nbytes == weight_bytes(folder) + 420 * 24 * 4


def test_a_model_that_does_not_fit_is_refused_before_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 200_000)
    monkeypatch.setattr("gpt2viz.checkpoint.read", lambda _stored: pytest.fail("it was read"))
    with pytest.raises(gpt2viz.TooLargeError, match=r"^model needs 2\d\d kB of memory: 1\d\d kB"):
        gpt2viz.load_model(folder)


def test_the_refusal_says_all_three_numbers() -> None:
    weights = 4 * 1_557_611_200
    memory.check("gpt2-xl", weights, XL, weights + memory.run_bytes(XL))
    memory.check("gpt2-xl", weights, XL, None)
    with pytest.raises(gpt2viz.TooLargeError) as refusal:
        memory.check("gpt2-xl", weights, XL, 5_300_000_000)
    assert str(refusal.value) == (
        "gpt2-xl needs 8.54 GB of memory: 6.23 GB for its weights and 2.31 GB for a text of "
        "1,024 tokens. 5.3 GB are free. Close other programs, or choose a smaller model."
    )


def test_a_run_takes_what_was_said(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, list(range(24)), explicit=False)
    kept = trace.nbytes
    assert memory.run_bytes(tiny.config) / 3 < kept <= memory.run_bytes(tiny.config)


def test_the_docs_say_what_is_said_before_loading() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*?gpt2.*?)` \| (\d.*) \|$", text, re.M)
    assert [name for name, _ in rows] == ["distilgpt2", *hub.RELEASED[:4]]
    for _, row in rows:
        *sizes, count, weights, run = row.split(" | ")
        n_layer, n_head, n_embd = (int(size.replace(",", "")) for size in sizes)
        config = gpt2viz.GPT2Config(n_layer=n_layer, n_head=n_head, n_embd=n_embd)
        n = sum(part.n_parameters for part in parts(config))
        expected = (f"{n:,}", memory.spell(4 * n), memory.spell(memory.run_bytes(config)))
        assert (count, weights, run) == expected


@pytest.mark.parametrize(
    ("n_bytes", "written"),
    [
        *[(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (999_600, "1 MB")],
        *[(548_105_171, "548 MB"), (6_431_829_964, "6.43 GB"), (2_340_000_000_000, "2,340 GB")],
    ],
)
def test_sizes_in_words(n_bytes: int, written: str) -> None:
    assert memory.spell(n_bytes) == written


def test_free_memory_is_what_the_kernel_and_the_container_leave(tmp_path: Path) -> None:
    proc, group = tmp_path / "proc", tmp_path / "cgroup"
    proc.mkdir()
    group.mkdir()
    assert memory.free_memory(proc, group) is None
    (proc / "meminfo").write_text("MemTotal:  16000 kB\nMemAvailable:   8000 kB\n")
    assert memory.free_memory(proc, group) == 8_192_000
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("3000000\n")
    assert memory.free_memory(proc, group) == 8_192_000
    (group / "memory.max").write_text("5000000\n")
    (group / "memory.stat").write_text("anon 2000000\ninactive_file 500000\n")
    assert memory.free_memory(proc, group) == 2_500_000


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists the mappings")
def test_float32_weights_are_mapped_from_their_file_once(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    file = re.escape(str(folder / "model.safetensors"))
    lines = re.findall(rf"^(\w+)-(\w+) .*{file}$", Path("/proc/self/maps").read_text(), re.M)
    ((start, end),) = [(int(a, 16), int(b, 16)) for a, b in lines]
    for name, weight in model.network.named_parameters():
        assert start <= weight.data_ptr() < end, name
