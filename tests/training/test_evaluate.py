"""The evaluation's figures on a tiny model, and a card that says what was missed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gpt2viz
from gpt2viz.training import evaluate as command
from gpt2viz.training.card import FIRST_OF_OPENING, best_head, model_card, shortcomings
from gpt2viz.training.corpus import SEPARATOR
from gpt2viz.training.evaluate import bits_per_byte, continuation, openings_of, roles

GOOD = {
    "bits per byte": 1.5,
    "n-gram bits per byte": {
        "Witten–Bell": {"1": 2.6, "3": 1.8},
        "modified Kneser–Ney": {"1": 2.6, "3": 1.7},
    },
    "loss by position": {"1–31": 5.0, "32–63": 4.0},
    "repetition": {"16": {"first": 8.0, "second": 2.0}},
    "heads": {
        "previous token": [[0.9]],
        "first token": [[0.6]],
        FIRST_OF_OPENING: [[0.7]],
        "induction": [[0.7]],
    },
}
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


def test_a_model_that_knows_nothing_pays_the_log_of_its_vocabulary(tiny_folder: Path) -> None:
    model = gpt2viz.load_model(tiny_folder)
    torch.nn.init.zeros_(model.network.wte.weight)
    rows = torch.tensor([model.tokenizer.encode("A crane ate fish.")])
    n_bytes = sum(len(model.tokenizer.token_bytes(i)) for i in rows[0, 1:].tolist())
    expected = (rows.shape[1] - 1) * np.log2(model.config.vocab_size) / n_bytes
    assert bits_per_byte(model, rows) == pytest.approx(expected, rel=1e-5)


def test_a_head_is_named_after_its_highest_score() -> None:
    scores = {"previous token": [[0.9, 0.1]], "induction": [[0.5, 0.2]]}
    assert roles(scores) == [["previous token", ""]]
    assert best_head([[0.1, 0.2], [0.8, 0.3]]) == (0.8, "1.0")


def test_continuations_are_the_same_every_time(tiny: gpt2viz.Model) -> None:
    texts = [continuation(tiny, "A crane", n_tokens=30, seed=seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("A crane")


def test_openings_are_the_starts_of_paragraphs(tiny: gpt2viz.Model) -> None:
    lines = [f"{n} cranes ate {n} fish by the river, and were tired of it." for n in range(9)]
    rows = openings_of(tiny, "\n".join([*lines, "short"])).tolist()
    assert rows == [tiny.tokenizer.encode(line)[:16] for line in lines]
    assert openings_of(tiny, "\n".join(lines), most=3).tolist() == [rows[0], rows[4], rows[8]]


def test_every_missed_target_is_said_with_its_figure() -> None:
    assert shortcomings(GOOD, 30_000_000) == []
    bad = {
        "bits per byte": 1.69,
        "n-gram bits per byte": GOOD["n-gram bits per byte"],
        "loss by position": {"1–31": 4.0, "32–63": 4.5},
        "repetition": {"16": {"first": 8.0, "second": 4.01}},
        "heads": {
            "previous token": [[0.79]],
            "first token": [[0.21]],
            FIRST_OF_OPENING: [[0.49]],
            "induction": [[0.03]],
        },
    }
    said = shortcomings(bad, 19_000_000)
    assert len(said) == 8
    for figure in (
        "1.690",
        "order 3 (modified Kneser–Ney) has 1.700",
        "4.50",
        "4.01",
        "0.03",
        "0.79",
        "0.49",
        "0.21",
        "19.0 million",
    ):
        assert any(figure in sentence for sentence in said), figure


def test_the_command_prints_and_writes(
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
    with pytest.raises(SystemExit):
        command.main()
    assert "--write needs --manifest and --hardware" in capsys.readouterr().err
    more = ["--manifest", str(tmp_path / "manifest.json"), "--hardware", "one abacus"]
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
    assert f"{figures['bits per byte']:.2f} bits per byte" in capsys.readouterr().out
    for text in ("| 11 | A Title | An Author | 1,234 |", "one abacus", "doesn't clearly beat"):
        assert text in card
    assert "crane number" in (model / "sample.txt").read_text(encoding="utf-8")
    config = gpt2viz.load_model(model).config
    assert card == model_card(figures, config, BOOKS, RUN, "one abacus")
