"""The switch that puts ``<|endoftext|>`` first: on every page, said, and never without asking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.app import run_cache
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import PAGES, SHADE, array, chips, figure, heatmaps, open_page, plain
from tests.bundled import N_HEAD
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import Tolerance, reference, softmax

TEXT = "She sat by the bank of the river"
ON = {"text": TEXT, "endoftext": "true"}
TOLERANCE: Tolerance = {"rtol": 2e-4, "atol": 2e-4}


@pytest.fixture(scope="module")
def ids() -> list[int]:
    """The token's id as config.json has it, then the sentence."""
    special = json.loads((BUNDLED / "config.json").read_text(encoding="utf-8"))["eos_token_id"]
    return [special, *gpt2viz.load_model().tokenizer.encode(TEXT)]


@pytest.fixture(scope="module")
def stages(ids: list[int]) -> Any:
    return reference(BUNDLED, ids, causal=True)


def tokens(at: Any) -> list[str]:
    labels: list[str] = chips(at)["labels"]
    return labels


def captions(at: Any) -> str:
    return " ".join(block.value for block in at.caption)


@pytest.mark.parametrize("page", [page for page in PAGES if page != "models"])  # has no sentence
def test_every_page_says_so(page: str) -> None:
    at = open_page(page, **ON)
    assert len(tokens(at)) == 9
    assert tokens(at)[0] == "<|endoftext|>"
    assert "was **put first**" in captions(at)


@pytest.mark.parametrize(
    "page", ["attention", "side_by_side?differs=text", "predict?predict=generate"]
)
def test_nothing_is_said_where_it_is_off(page: str) -> None:
    plain = open_page(page, text=TEXT)
    assert len(tokens(plain)) == 8
    assert "put first" not in captions(plain)
    assert plain.toggle(key="endoftext").value is False


def test_the_weights_are_those_of_the_longer_run(stages: Any) -> None:
    shown = heatmaps(figure(open_page("attention", **ON, layer="2"), "all_heads"))
    assert_allclose([shown[f"2.{n}"] for n in range(N_HEAD)], stages["weights"][2], atol=SHADE)
    at = open_page("head", **ON, layer="2", head="1")
    assert_allclose(heatmaps(figure(at, "stage_q"))["q"], stages["q"][2][1], **TOLERANCE)


def test_runs_that_are_compared_all_have_it(ids: list[int], stages: Any) -> None:
    def panels(at: Any, key: str) -> list[np.ndarray]:
        return [array(t["z"]) for t in figure(at, key)["data"] if t.get("coloraxis")]

    off = reference(BUNDLED, ids, causal=False)
    masks = open_page("side_by_side?differs=mask", **ON, layer="1", head="4")
    assert_allclose(
        panels(masks, "both_sides"), [stages["weights"][1][4], off["weights"][1][4]], **TOLERANCE
    )
    shown = panels(open_page("what_if", **ON, edits="nofirst", layer="0", head="0"), "both_sides")
    assert_allclose(shown[0], stages["weights"][0][0], **TOLERANCE)
    rest = stages["weights"][0][0][1:, 1:]
    expected = rest / rest.sum(axis=1, keepdims=True)
    assert_allclose(shown[1][1:, 1:], expected, rtol=5e-3, atol=2e-3)


def test_predictions_and_the_surprise_of_the_first_word(ids: list[int], stages: Any) -> None:
    at = open_page("predict", **ON)
    p = softmax(stages["logits"])
    table = at.dataframe[0].value
    assert_allclose(table["model (%)"][:12], 100 * p[-1][table["id"][:12].tolist()], rtol=2e-3)
    bits = array(figure(at, "surprise")["data"][0]["y"])
    assert bits[1] == pytest.approx(-np.log2(p[0, ids[1]]), rel=1e-3)
    lens = heatmaps(figure(at, "lens_map"))["lens"]
    assert_allclose(lens[-1], p.max(axis=1), **TOLERANCE)


def test_writing_on_starts_from_it(stages: Any) -> None:
    at = open_page("predict?predict=generate", **ON, layer="3", head="2", temperature="0.0")
    row = array(figure(at, "row")["data"][0]["y"])
    assert_allclose(row, stages["weights"][3][2][-1], **TOLERANCE)
    (step,) = [button for button in at.button if button.label == "Step"]
    step.click().run()
    new = at.query_params["new"]
    token = int((new[0] if isinstance(new, list) else new).split(",")[1])
    assert token == stages["logits"][-1].argmax()


def test_shapes_count_it() -> None:
    table = open_page("shapes", **ON).dataframe[0].value
    (shape,) = table.loc[table["tensor"] == "wpe", "shape"]
    assert shape.startswith("(9,")


def test_the_chosen_token_stays_chosen() -> None:
    at = open_page("attention", text=TEXT, query="4")
    assert "bank" in tokens(at)[4]
    at.toggle(key="endoftext").set_value(True).run()
    assert at.query_params["endoftext"] == "true"
    assert at.query_params["query"] == "5"
    assert "bank" in tokens(at)[5]
    at.toggle(key="endoftext").set_value(False).run()
    assert at.session_state["query"] == 4
    at = open_page("attention", **ON, query="0")
    at.toggle(key="endoftext").set_value(False).run()
    assert at.session_state["query"] is None
    assert not at.warning


def test_all_that_is_chosen_goes_along() -> None:
    chosen = {"key": "2", "keys": "0,3", "edits": "forbid:3:1,off:0.0"}
    chosen |= {"match": "1:6,3:2", "cells": "3:1", "pattern": "column", "n": "3"}
    chosen |= {"zoom": "2,5,1,4"}
    at = open_page("attention", text=TEXT, **chosen)
    at.toggle(key="endoftext").set_value(True).run()
    moved = {"key": "3", "keys": "1,4", "edits": "forbid:4:2,off:0.0"}
    moved |= {"match": "2:7,4:3", "cells": "4:2", "pattern": "column", "n": "4"}
    moved |= {"zoom": "3,6,2,5"}
    assert moved.items() <= at.query_params.items()
    at.toggle(key="endoftext").set_value(False).run()
    assert chosen.items() <= at.query_params.items()
    at = open_page("what_if", **ON, edits="forbid:3:0")
    at.toggle(key="endoftext").set_value(False).run()
    assert "edits" not in at.query_params
    assert not at.warning
    at = open_page("attention", text=TEXT, edits="nonsense", query="x", match="y", cells="0:9:1")
    at.toggle(key="endoftext").set_value(True).run()
    assert not at.exception


def test_the_part_that_is_shown_is_of_the_same_tokens(stages: Any) -> None:
    at = open_page("attention", text=TEXT, zoom="2,5,1,4", layer="2", head="1")
    at.toggle(key="endoftext").set_value(True).run()
    shown = heatmaps(figure(at, "one_head"))["weights"]
    assert_allclose(shown, stages["weights"][2][1][3:6, 2:5], **TOLERANCE)
    at = open_page("attention", **ON, zoom="0,2,0,1")
    at.toggle(key="endoftext").set_value(False).run()
    assert "zoom" not in at.query_params  # its only key was the token that is gone


def test_a_pattern_s_number_moves_where_it_is_a_token() -> None:
    at = open_page("find", text=TEXT, find="pattern", pattern="back", n="3")
    at.toggle(key="endoftext").set_value(True).run()
    assert at.query_params["n"] == "3"


def test_it_takes_a_place_of_the_context() -> None:
    text = " ".join(["the bank"] * 128)  # exactly the model's 256 positions
    assert not open_page("attention", text=text).warning
    at = open_page("attention", text=text, endoftext="true")
    assert "has 257 tokens" in at.warning[0].value
    assert "counts as one" in at.warning[0].value
    (button,) = [b for b in at.button if b.label == "Use the first 255 tokens"]
    button.click().run()
    assert not at.warning
    assert heatmaps(figure(at, "one_head"))["weights"].shape == (256, 256)


def test_it_may_stand_alone() -> None:
    at = open_page("predict?predict=generate", text="", endoftext="true")
    assert len(tokens(at)) == 1
    assert not at.info


def test_a_model_without_it_has_no_switch_to_move(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path / "plain")
    path = tmp_path / "plain" / "vocab.json"
    vocab = json.loads(path.read_text(encoding="utf-8"))
    vocab.pop("<|endoftext|>")
    path.write_text(json.dumps(vocab), encoding="utf-8")
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(tmp_path / "plain"))
    at = open_page("attention", text="A crane", endoftext="true")
    toggle = at.toggle(key="endoftext")
    assert toggle.disabled
    assert not toggle.value
    assert "no token" in plain(toggle.help)
    assert "endoftext: true can't be shown here. It must be false." in at.warning[0].value
    at.run()
    assert not at.warning


def test_what_the_tokenizer_itself_puts_around_a_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is there without a switch, and said; a text that is too long is cut with room for it."""
    folder = tmp_path / "around"
    write_checkpoint(folder)
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(folder))
    config = {"add_bos_token": True, "add_eos_token": True, "add_prefix_space": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    for asked in ({}, {"endoftext": "true"}):
        at = open_page("attention", text="crane", **asked)
        assert tokens(at) == ["<|endoftext|>", "·crane", "<|endoftext|>"]
        assert not [toggle for toggle in at.toggle if toggle.key == "endoftext"]
        said = captions(at)
        assert said.count("was **put first** by this model's own tokenizer") == 2  # a space, too
        assert "was **put last** by this model's own tokenizer" in said
    at = open_page("attention", text=" crane" * 30)
    assert "count as 2." in at.warning[0].value
    (button,) = (b for b in at.button if b.label == "Use the first 22 tokens")
    button.click().run()
    assert len(tokens(at)) == 24
    at = open_page("models?model=around&part=tokenizer", word=" crane")
    assert "this tokenizer puts" in captions(at)
