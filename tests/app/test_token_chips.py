"""The strip of tokens: what is sent for it, and what the server does as one is chosen there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit import config

import gpt2viz
from gpt2viz.app import address, parameters
from gpt2viz.app.components import token_chips
from tests.app.pages import chips, open_page

#: What a strip of 128 chips took in all when it was Streamlit's own, in bytes.
STREAMLITS = 5853


def parts(at: Any, name: str) -> list[Any]:
    return [c.proto for c in at.get("bidi_component") if c.proto.id.endswith(name)]


@pytest.mark.parametrize("page", ["attention", "head", "shapes"])
@pytest.mark.parametrize("text", ["A crane ate fish", "<b>x</b> $y$ :red[r] [a](http://b)\n"])
def test_every_token_is_sent_with_its_id_and_as_nothing_but_text(page: str, text: str) -> None:
    ids = gpt2viz.load_model().tokenizer.encode(text)
    drawn = chips(open_page(page, text=text))
    assert drawn["ids"] == ids
    written = gpt2viz.trace(gpt2viz.load_model(), text).labels
    assert drawn["labels"] == list(written)
    assert (drawn["first"], drawn["part"], drawn["chosen"]) == (0, False, None)


def test_what_is_written_from_right_to_left_keeps_to_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Any] = []  # the bundled model reads no such letter in one token
    monkeypatch.setattr(token_chips, "_draw", lambda **options: drawn.append(options["data"]))
    labels, ids = ["a", "·שלום", "b"], [5, 6, 7]
    token_chips.draw("3 tokens", labels, ids, shown=range(1, 3), query=0, enabled=True)
    (data,) = drawn
    assert data["labels"] == ["\u2068·שלום\u2069", "b"]
    assert (data["ids"], data["first"], data["part"], data["chosen"]) == ([6, 7], 1, True, 0)


@pytest.mark.parametrize("query", [None, 0, 3])
def test_the_chosen_one_is_that_of_the_address(query: int | None) -> None:
    asked = {} if query is None else {"query": str(query)}
    assert chips(open_page("head", **asked))["chosen"] == query


@pytest.mark.parametrize(("sent", "query"), [(0, 0), (3, 3), (-1, None)])
def test_one_that_is_chosen_is_that_of_every_page(
    monkeypatch: pytest.MonkeyPatch, sent: int, query: int | None
) -> None:
    kept: list[object] = []
    monkeypatch.setattr(address, "put", lambda *put: kept.append(put))
    monkeypatch.setattr(st, "session_state", {"token_chips": SimpleNamespace(query=sent)})
    token_chips._picked()
    assert kept == [(parameters.QUERY, query)]


def test_as_many_chips_as_there_can_be_take_no_more_than_streamlit_s_own() -> None:
    at = open_page("attention", text=" ".join(["the bank of"] * 42 + ["a b"]))
    (strip,), (script,) = parts(at, "-token_chips"), parts(at, "-bundle")
    (name,) = (block.proto for block in at.markdown if block.value == "128 tokens")
    assert strip.ByteSize() + name.ByteSize() < STREAMLITS
    assert script.ByteSize() > config.get_option("global.minCachedMessageSize"), "sent each time"
    at.query_params["query"] = "5"
    at.run()
    assert parts(at, "-bundle") == [script], "the same whatever is chosen"
