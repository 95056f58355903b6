"""The Textbook's chapter on why a head looks there: each number is of the run that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app import run_cache
from gpt2viz.app.course import why
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import figure, heatmaps, open_page, plain
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import reference

CRANE = "A crane ate fish"
JOHN = "When Mary and John went to the garden, John gave the flower to Mary"


def said(at: AppTest) -> str:
    return plain(" ".join(element.value for element in [*at.markdown, *at.caption]))


def linked(at: AppTest, page: str) -> list[dict[str, str]]:
    """What the links to a page ask for, within the chapter."""
    links = [link.proto for link in at.get("page_link") if link.proto.page == page]
    return [dict(parse_qsl(link.query_string)) for link in links if "layer=" in link.query_string]


def hardest(ids: list[int], made: dict[str, Any]) -> tuple[int, int, int, int]:
    """By loops: the head above layer 0 with most mean weight on what followed, and its hardest."""
    weights = np.array(made["weights"])
    after = {
        q: [k + 1 for k in range(q) if ids[k] == ids[q]]
        for q in range(len(ids))
        if ids[q] in ids[:q]
    }
    means = {
        (n, h): np.mean([weights[n, h, q, ks].sum() for q, ks in after.items()])
        for n, h in np.ndindex(*weights.shape[:2])
        if n > 0
    }
    layer, head = max(means, key=lambda place: means[place])
    cells = {(q, k): weights[layer, head, q, k] for q, ks in after.items() for k in ks}
    return layer, head, *max(cells, key=lambda cell: cells[cell])


@pytest.mark.parametrize("text", [CRANE, JOHN])
def test_its_numbers_are_of_the_look_that_it_names(text: str) -> None:
    at = open_page("textbook", chapter="why", text=text)
    read = f"{text} {text}" if text == CRANE else text  # nothing comes twice there
    ids = list(gpt2viz.load_model().tokenizer.encode(read))
    made = reference(BUNDLED, ids, True)
    layer, head, query, key = hardest(ids, made)
    weight, scores = made["weights"][layer][head, query, key], made["scores"][layer][head, query]
    words = said(at)
    assert ("no token comes twice" in words) == (text == CRANE)
    assert f"**head {layer}.{head}**" in words
    assert re.search(rf"goes from {query} \S+ to {key} \S+: weight \*\*{weight:.2f}\*\*", words)
    assert f"The run's own q·k is {scores[key]:.4f}"[:-2] in words
    formulas = " ".join(block.value for block in at.latex)
    beyond = scores[key] - scores[: query + 1].mean()
    assert formulas.endswith(rf"\approx {beyond:.2f}" + "\n$$")
    parts = heatmaps(figure(at, "why_parts"))["parts"]
    assert parts[-1, -1] == pytest.approx(beyond, rel=1e-3)
    assert f"{len(parts) - 1} \\cdot {len(parts) - 1}" in formulas
    place = {"layer": str(layer), "head": str(head), "query": str(query), "key": str(key)}
    cell, opened = linked(at, "head")
    assert cell.items() >= ({"text": read} | place).items()
    assert opened.items() >= place.items()
    other, other_head, asks, looked = map(int, re.split("[.:]", opened["why"]))
    found = re.search(r"had looked hardest at (\d+) \S+, \*\*.*?\*\* \(weight ([\d.]+)\)", words)
    assert found
    row = made["weights"][other][other_head, asks]
    assert (
        (int(found[1]), found[2])
        == (looked, f"{row[looked]:.2f}")
        == (
            row.argmax(),
            f"{row.max():.2f}",
        )
    )
    (off,) = linked(at, "what_if")
    assert off["edits"] == f"off:{other}.{other_head}"
    edited = gpt2viz.trace(gpt2viz.load_model(), ids, edits=gpt2viz.parse_edits(off["edits"]))
    left = edited.stage("weights", layer, head)[query, key]
    assert f"went from {weight:.2f} to **{left:.2f}**" in words
    assert "This is an **induction** circuit" in words


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A model that was never trained, listed by the owner."""
    write_checkpoint(tmp_path / "other")
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(tmp_path / "other"))
    st.cache_resource.clear()
    yield "other"
    st.cache_resource.clear()


def test_a_model_without_the_circuit_is_not_said_to_have_it(other: str) -> None:
    at = open_page("textbook", chapter="why", text="ab ab", model=other)
    words = said(at)
    assert not at.exception
    assert "No single reason stands out" in words
    assert "induction" not in words
    assert "The hardest look takes 0." in words
    assert at.session_state["_progress"]["why"] == []


def test_where_nothing_can_be_copied_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    words = said(open_page("textbook", chapter="why", text="A"))
    assert "not even where your sentence is said twice. Type a longer one." in words
    assert "too long" not in words
    monkeypatch.setattr(why, "said_twice", lambda view: None)
    assert "said twice would be too long" in said(open_page("textbook", chapter="why", text="A"))
