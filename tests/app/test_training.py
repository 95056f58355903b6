"""The Training page draws the record beside the weights, and says so where there is none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpt2viz.app import run_cache
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import array, figure, open_page, pictures, plain
from tests.checkpoints import write_checkpoint

CURVES = json.loads((BUNDLED / "training.json").read_text(encoding="utf-8"))["curves"]


def test_the_headline_counts_what_was_read_and_measured() -> None:
    at = open_page("training")
    said = "\n".join(block.value for block in (*at.markdown, *at.caption))
    assert f"What {round(CURVES[-1]['tokens'] / 1e6, 1)} million tokens taught it" in plain(said)
    assert f"measured {len(CURVES)} times" in plain(said)


def test_the_losses_drawn_are_the_records() -> None:
    lines = figure(open_page("training"), "losses")["data"]
    names = ("held_out_loss", "first_half_loss", "second_half_loss")
    for line, name in zip(lines, names, strict=True):
        assert_allclose(array(line["x"]), [point["tokens"] for point in CURVES])
        assert_allclose(array(line["y"]), [point[name] for point in CURVES])


@pytest.mark.parametrize("score", ["previous token", "induction", "first token"])
def test_the_scores_drawn_are_the_records(score: str) -> None:
    (drawn,) = figure(open_page("training", score=score), "score_growth")["data"]
    stored = np.array([point[score.split()[0]] for point in CURVES])  # (P, n_layer, n_head)
    for layer, row in enumerate(np.moveaxis(stored, 0, -1)):
        for head, values in enumerate(row):
            place = drawn["y"].index(f"{layer} · {head}")
            assert_allclose(array(drawn["z"])[place], values)
    assert len(drawn["x"]) == len(set(drawn["x"])) == len(CURVES)


def test_the_card_is_shown() -> None:
    card = (BUNDLED / "README.md").read_text(encoding="utf-8")
    shown = [markdown.value for markdown in open_page("training").markdown]
    said = ["".join(re.findall(r"\w+", text)) for text in shown]  # its signs are escaped there
    assert "".join(re.findall(r"\w+", card)) in said


def test_a_model_without_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path / "plain")
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(tmp_path / "plain"))
    at = open_page("training", model="plain", text="A crane")
    assert ["no `training.json`" in info.value for info in at.info] == [True]
    assert not pictures(at)


def test_a_broken_record_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path / "broken")
    (tmp_path / "broken" / "training.json").write_text("[]", encoding="utf-8")
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(tmp_path / "broken"))
    at = open_page("training", model="broken", text="A crane")
    assert [
        "a record of this model's training" in error.value.replace("\\", "") for error in at.error
    ] == [True]
    assert not pictures(at)
