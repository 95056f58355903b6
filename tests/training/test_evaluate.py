"""The evaluation's figures on a tiny model, and a card that lists missed targets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gpt2viz
from gpt2viz.training import evaluate as command
from gpt2viz.training.card import model_card
from gpt2viz.training.corpus import SEPARATOR, Corpus
from gpt2viz.training.evaluate import bits_per_byte, continuation, openings_of, roles, xz_bits
from gpt2viz.training.targets import TARGETS, best_head

RUN = {
    "seconds": 12,
    "training tokens": {"own": 1024, "more": 0},
    "held-out rows": 32,
    "curves": [
        {
            "step": 5,
            "tokens": 5120,
            "held_out_loss": 6.5,
            "first_half_loss": 6.0,
            "second_half_loss": 5.0,
            "previous": [[0.1, 0.25]],
            "induction": [[0.0, 0.5]],
        }
    ],
}
BOOKS = [{"gutenberg_id": 11, "title": "A Title", "author": "An Author", "chars": 1234}]


def test_uniform_model_takes_log2_of_its_vocabulary(tiny_folder: Path) -> None:
    model = gpt2viz.load_model(tiny_folder)
    torch.nn.init.zeros_(model.network.wte.weight)
    rows = torch.tensor([model.tokenizer.encode("A crane ate fish.")])
    n_bytes = sum(len(model.tokenizer.token_bytes(i)) for i in rows[0, 1:].tolist())
    expected = (rows.shape[1] - 1) * np.log2(model.config.vocab_size) / n_bytes
    assert bits_per_byte(model, rows) == pytest.approx(expected, rel=1e-5)


def test_role_of_a_head_is_its_highest_score() -> None:
    scores = {"previous token": [[0.9, 0.1]], "induction": [[0.5, 0.2]]}
    assert roles(scores) == [["previous token", ""]]
    assert best_head([[0.1, 0.2], [0.8, 0.3]]) == (0.8, "1.0")


def test_xz_bits_depend_on_the_training_text() -> None:
    """Known text takes few bytes more, new text many."""
    rng = np.random.default_rng(0)
    book, other = ("".join(rng.choice(list("abcdefgh"), 4000)) for _ in range(2))
    assert xz_bits(Corpus((book,), (book[:2000],))) < 0.5
    assert xz_bits(Corpus((book,), (other,))) == pytest.approx(3, abs=0.5)  # log2 of 8 letters


def test_continuations_are_reproducible(tiny: gpt2viz.Model) -> None:
    texts = [continuation(tiny, "A crane", n_tokens=30, seed=seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("A crane")


def test_openings_are_the_starts_of_paragraphs(tiny: gpt2viz.Model) -> None:
    lines = [f"{n} cranes ate {n} fish by the river, and were tired of it." for n in range(9)]
    rows = openings_of(tiny, "\n".join([*lines, "short"])).tolist()
    assert rows == [tiny.tokenizer.encode(line)[:16] for line in lines]
    assert openings_of(tiny, "\n".join(lines), most=3).tolist() == [rows[0], rows[4], rows[8]]


@pytest.mark.slow
def test_evaluate_command_prints_and_writes(
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    book = "\n".join(f"The crane number {n} ate {n * 7} fish by the river." for n in range(300))
    (tmp_path / "books.txt").write_text(f"{book}\n{SEPARATOR}\n{book}", encoding="utf-8")
    (tmp_path / "manifest.json").write_text(json.dumps(BOOKS), encoding="utf-8")
    model = tmp_path / "model"
    model.mkdir()
    for file in tiny_folder.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    (model / "training.json").write_text(json.dumps(RUN), encoding="utf-8")
    paths = ["--corpus", str(tmp_path / "books.txt"), "--model", str(model), "--write"]
    monkeypatch.setattr(sys, "argv", ["evaluate", *paths])
    monkeypatch.setattr(command, "PERIODS", (4, 8, 64))
    reachable = [target for target in TARGETS if "random" not in target.what]
    for module in ("card", "targets"):
        monkeypatch.setattr(f"gpt2viz.training.{module}.TARGETS", reachable)
    with pytest.raises(SystemExit):
        command.main()
    assert "--write needs --manifest and --hardware" in capsys.readouterr().err
    manifest = str(tmp_path / "manifest.json")
    more = ["--manifest", manifest, "--more", manifest, "--hardware", "one abacus"]
    more += ["--beside", str(tiny_folder)]
    monkeypatch.setattr(sys, "argv", ["evaluate", *paths, *more])
    (model / "training.json").write_text(json.dumps({"curves": RUN["curves"]}), encoding="utf-8")
    with pytest.raises(SystemExit):
        command.main()
    assert "another recipe made this model" in capsys.readouterr().err
    (model / "training.json").write_text(json.dumps(RUN), encoding="utf-8")
    command.main()
    figures = json.loads((model / "evaluation.json").read_text(encoding="utf-8"))
    card = (model / "README.md").read_text(encoding="utf-8")
    assert list(figures["repetition"]) == ["4", "8"]
    assert set(figures["n-gram bits per byte"]["modified Kneser–Ney"]) == set("123456")
    printed = capsys.readouterr().out
    assert f"{figures['bits per byte']:.2f} bits per byte" in printed
    assert (
        "\n| --- | --- | --- | --- |\n| bits per byte of held-out text | at most 1.42 |" in printed
    )
    assert "Best: model\n" in printed, "of equal ones the first"
    for text in ("| 11 | A Title | An Author | 1,234 |", "one abacus", "It misses a target: bits"):
        assert text in card
    assert "1 further books" in card
    assert "\n11,A Title,An Author,1234\n" in (model / "further_books.csv").read_text("utf-8")
    assert "crane number" in (model / "sample.txt").read_text(encoding="utf-8")
    config = gpt2viz.load_model(model).config
    assert card == model_card(figures, config, BOOKS, BOOKS, RUN, "one abacus")
