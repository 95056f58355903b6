"""The page that runs a model: its size and refusals. tests/browser compares its numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import gpt2viz
from gpt2viz.cli import main
from gpt2viz.errors import CheckpointError, TooLargeError
from gpt2viz.model.packed import pack
from gpt2viz.model.tokenizer import TokenList
from gpt2viz.notebook import live_page as page
from tests.bundled import bundled_model
from tests.checkpoints import write_checkpoint
from tests.llama_checkpoints import write_llama


def test_a_page_is_small_and_loads_nothing(tmp_path: Path) -> None:
    made = gpt2viz.write_page(bundled_model(), tmp_path / "page.html", "<|endoftext|>A crane")
    assert made.stat().st_size < 6_000_000
    text = made.read_text(encoding="utf-16")
    assert "default-src 'none'" in text
    assert "connect-src" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)


def test_notes_state_bounds_of_the_rounding() -> None:
    model = bundled_model()
    packed = pack(model, page._vocabulary(model)["letters"])
    bounds = re.findall(r"(?:within|at most) (\d[.\d]*\d)", page._notes(model, packed)[0])
    for exact, bound in zip((packed.error, page._difference(model, packed)), bounds, strict=True):
        assert exact <= float(bound) < 1.2 * exact


def test_unsupported_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = gpt2viz.load_model(write_checkpoint(tmp_path / "exact", activation_function="gelu"))
    listed = replace(bundled_model(), tokenizer=TokenList(["a", "b"]))
    llama = gpt2viz.load_model(write_llama(tmp_path / "llama"))
    for model, message in (
        (exact, "activation gelu, which a page lacks"),
        (listed, "cuts texts in another way"),
        (llama, "isn't a GPT-2, the only model that a page"),
    ):
        with pytest.raises(CheckpointError, match=message):
            gpt2viz.write_page(model, tmp_path / "page.html")
    monkeypatch.setattr(page, "LARGEST", 1_000_000)
    with pytest.raises(TooLargeError, match="stories would take 5 MB in a page; at most 1 MB"):
        gpt2viz.write_page(bundled_model(), tmp_path / "page.html")
    out = str(tmp_path / "page.html")
    answer = CliRunner().invoke(main, ["page", "--model", str(tmp_path / "llama"), "--out", out])
    assert answer.exit_code == 1
    assert "isn't a GPT-2" in answer.stderr
    assert not (tmp_path / "page.html").exists()
