"""The Textbook's chapter in which a reader builds GPT-2: what is said of a gap, what is written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from os import pathsep
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app import run_cache
from gpt2viz.app.literal import literal
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import open_page, plain
from tests.app.test_textbook import BUILT
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import reference

CRANE = "A crane ate fish"
RIGHT = ":green-badge[right]"


def said(at: AppTest) -> str:
    return plain("\n".join(element.value for element in [*at.markdown, *at.caption]))


def right(at: AppTest) -> int:
    return sum(element.value.startswith(RIGHT) for element in at.markdown)


@cache
def begins(text: str) -> str:
    """The first two tokens that a GPT-2 in NumPy writes on, as the page writes them."""
    tokenizer = gpt2viz.load_model().tokenizer
    ids = list(tokenizer.encode(text))[:32]
    read = len(ids)
    for _ in range(2):
        ids.append(int(reference(BUNDLED, ids, True)["logits"][-1].argmax()))
    return plain(literal(tokenizer.decode(ids[read:])))


@pytest.mark.parametrize("more", [{}, {"causal": "false", "text": "the bank " * 20}])
def test_the_finished_model_writes_on(more: dict[str, str]) -> None:
    at = open_page("textbook", chapter="build", **BUILT, **more)
    assert right(at) == 8
    text = said(at)
    assert f":green-background[{begins(more.get('text', CRANE).strip())}" in text
    assert "Right: **8 of 8 gaps**" in text
    assert "You have built GPT-2" in text
    assert ("Only the first 32 tokens of your sentence are read" in text) == bool(more)
    assert ("with the mask on, as GPT-2 reads" in text) == bool(more)
    (source,) = [block.value for block in at.code if block.value.startswith("class GPT2")]
    for expression in BUILT.values():
        assert expression in source


def test_an_expression_is_judged_as_it_is_typed() -> None:
    at = open_page("textbook", chapter="build")
    assert "At hand: `q` (1, 8, 4, 32) · `k` (1, 8, 4, 32)" in said(at)
    at.text_input(key="build_scores").set_value("q @ k").run()
    assert "not yet] `q @ k`: (1, 8, 4, 32) times (1, 8, 4, 32) doesn't fit" in said(at)
    assert at.query_params["build_scores"] == "q @ k"
    at.text_input(key="build_scores").set_value("k @ q.mT").run()
    assert "These are transposed" in said(at)
    at.text_input(key="build_scores").set_value("q @ k.mT").run()
    assert right(at) == 1
    assert "Right: **1 of 8 gaps**" in said(at)
    assert "Once something of the right shape stands in each gap" in said(at)


def test_a_wrong_model_writes_beside_the_real_one_or_says_why_it_cannot() -> None:
    at = open_page("textbook", chapter="build", **BUILT | {"build_residual": "made"})
    text = said(at)
    assert right(at) == 7
    assert f"The real model goes on: “{begins(CRANE)}" in text
    assert "You have built" not in text
    at.text_input(key="build_residual").set_value("x * inf - x * inf").run()
    assert "can't write on: the logits are NaN" in said(at)
    at.text_input(key="build_residual").set_value(BUILT["build_residual"])
    at.text_input(key="build_softmax").set_value("ones(1, 8, 4, 4) / 4").run()
    assert "can't write on: With 5 tokens" in said(at)
    assert right(at) == 7
    # Right in shape for these four tokens; for five, thousands of rows, which ours would multiply.
    wide = {
        "build_embedding": "ones((T-4)*999+1,(5-T)*3+1,256)",
        "build_softmax": "ones(1,8,(masked.shape[-1]-4)*1800+4,masked.shape[-1])",
    }
    at = open_page("textbook", chapter="build", **BUILT | wide)
    assert "can't write on: With 5 tokens" in said(at)
    at.text_input(key="build_embedding").set_value(BUILT["build_embedding"]).run()
    assert "(1, 8, 5, 5) is wanted" in said(at)


@pytest.fixture
def _others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tiny GPT-2 and one that differs in its scale, listed by the owner."""
    write_checkpoint(tmp_path / "tiny")
    write_checkpoint(tmp_path / "scaled", scale_attn_by_inverse_layer_idx=True)
    folders = (tmp_path / "tiny", tmp_path / "scaled")
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, pathsep.join(map(str, folders)))
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


@pytest.mark.usefixtures("_others")
def test_models_and_sentences_that_it_can_and_cannot_build_with() -> None:
    at = open_page("textbook", chapter="build", **BUILT, model="tiny", text="a crane ate")
    assert right(at) == 8
    assert "You have built GPT-2" in said(at)
    at = open_page("textbook", chapter="build", **BUILT, model="tiny", text="a" * 23)
    assert right(at) == 8
    assert "1 token, and each is what the model above writes" in said(at)
    for more, why in (
        ({"model": "scaled", "text": "a crane ate"}, "differs from GPT-2 in its scale"),
        ({"text": "A"}, "Type a sentence of 3 tokens or more"),
    ):
        at = open_page("textbook", chapter="build", **BUILT, **more)
        assert why in said(at)
        assert "Here they are" not in said(at)
        assert right(at) == 0
        assert at.session_state["_progress"]["build"] == []
