"""Where there is nothing to show: one message that says what to do, and nothing half-drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.app import run_cache
from tests.app.pages import PAGES, button_groups, chips, open_page, pictures

LONG = "the cat " * 200
FRAME = {"Sentence", "Model", "Examples", "Causal mask", "<|endoftext|> first", "Chapters"}


def messages(at: AppTest) -> list[str]:
    return [block.value for block in [*at.info, *at.warning, *at.error]]


def half_drawn(at: AppTest) -> list[str]:
    """Headings, pictures, tables and controls that stand round the message."""
    controls = [*button_groups(at), *at.selectbox, *at.toggle, *at.text_input, *at.radio]
    found = [one.label for one in controls if one.label not in FRAME]
    found += [block.value for block in at.markdown if block.value.startswith("#")]
    found += pictures(at)
    return found + ["table"] * len(at.dataframe) + [one.label for one in at.metric]


@pytest.mark.parametrize("page", [page for page in PAGES if page != "models"])
@pytest.mark.parametrize(
    ("text", "told"), [("", "Type a word or a sentence"), (LONG, "Shorten it by 145")]
)
def test_no_text_or_too_much_is_one_message_alone(page: str, text: str, told: str) -> None:
    at = open_page(page, text=text)
    (message,) = messages(at)
    assert told in message
    assert half_drawn(at) == []


@pytest.mark.parametrize("way", ["pattern", "head", "all"])
def test_one_token_tells_no_heads_apart(way: str) -> None:
    at = open_page("find", text="A", find=way)
    (message,) = messages(at)
    assert message.startswith("With one token")
    assert half_drawn(at) == ["What to show"]
    assert len(chips(at)["labels"]) == 1


def test_one_token_looks_at_itself() -> None:
    at = open_page("find", text="A", find="look")
    assert messages(at) == []
    assert at.session_state["keys"] == [0]
    assert any("from query 0 to tokens 0" in name for name in pictures(at).values())


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"habit": "induction", "on": "sentence"}, "could show “induction”"),
        ({"find": "pattern", "pattern": "empty"}, "The pattern is empty"),
        ({"find": "pattern", "pattern": "empty", "cells": "0:0"}, "The pattern is empty"),
    ],
    ids=str,
)
def test_heads_without_a_number_are_not_ranked(parameters: dict[str, str], told: str) -> None:
    at = open_page("find", **parameters)
    (message,) = messages(at)
    assert told in message
    assert not at.dataframe
    assert not {"Only layers", "Picture"} & {one.label for one in button_groups(at)}


def test_one_token_has_no_surprise_and_no_empty_picture_of_it() -> None:
    at = open_page("predict", text="A")
    assert any(
        "The model reads nothing before the first token" in text.value for text in at.caption
    )
    assert "surprise" not in pictures(at)


def test_a_model_that_cannot_be_loaded_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half/config.json").write_text("{")
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(tmp_path / "half"))
    run_cache.models.clear()
    at = open_page("attention", model="half")
    run_cache.models.clear()
    (message,) = messages(at)
    assert message.startswith("**half** can't be loaded.")
    assert "Choose another model above" in message
    assert half_drawn(at) == []


def test_all_that_an_address_has_wrong_is_one_message() -> None:
    at = open_page("attention", layer="99", head="77", query="9", picture="x")
    (message,) = messages(at)
    assert [line.split(":")[0] for line in message.split("\n\n")] == [
        *("query", "layer", "head", "picture")
    ]
    assert messages(at.run()) == []
