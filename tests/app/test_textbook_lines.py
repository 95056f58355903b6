"""Line by line: what the Textbook says of each of the eighty lines, and where it leads."""

from __future__ import annotations

import inspect
import json
from typing import Any
from urllib.parse import parse_qsl

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app.components import listings
from gpt2viz.app.course import line_by_line as section
from gpt2viz.model import network
from gpt2viz.pictures import tables
from gpt2viz.run.stages import HEAD_STAGES, STAGE
from gpt2viz.textbook.line_by_line import line_by_line
from gpt2viz.textbook.line_pairs import PAIRS
from tests.app.pages import open_page, plain

TEXT = "A crane ate fish and"
LISTED = line_by_line()


def line(begins: str) -> int:
    (found,) = (LISTED.first(pair) for pair in PAIRS if pair.begins == begins)
    return found


def sent(at: AppTest) -> dict[str, Any]:
    """What the browser draws the two listings from."""
    (found,) = (c for c in at.get("bidi_component") if c.proto.id.endswith("-line_by_line"))
    data: dict[str, Any] = json.loads(found.proto.json)
    return data


def tables_of(at: AppTest) -> dict[str, pd.DataFrame]:
    shown: dict[str, pd.DataFrame] = at.session_state["_shown"].tables
    return {name: table for name, table in shown.items() if name.startswith("What line")}


def leads_to(at: AppTest) -> list[tuple[str, dict[str, str]]]:
    """The pages that the section's links open, with what they ask for."""
    begun = ("The cell of", "The model writes on")
    found = (
        one.proto
        for one in at.get("page_link")
        if one.proto.label.startswith(begun)
        or one.proto.label.endswith((", among all tensors", ", on Predict"))
    )
    return [(one.page, dict(parse_qsl(one.query_string))) for one in found]


def test_both_files_stand_there_and_what_is_no_line_opens_the_scores() -> None:
    empty = LISTED.pairs.index(None) + 1
    at = open_page("textbook", chapter="whole", line=str(empty))
    assert any(f"line: {empty} can't be shown here" in plain(one.value) for one in at.warning)
    data = sent(at)
    mine, package = data["listings"]
    assert mine == LISTED.lines
    assert "\n".join(package) == inspect.getsource(network).rstrip("\n")
    assert mine[data["chosen"] - 1].strip().startswith("scores = q @ k.mT")
    (there,) = data["beside"][str(data["chosen"])]
    assert package[there - 1].strip().startswith("scores = self.scores(q @")


@pytest.fixture
def every_line(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The chapter in layer 2 and head 3, with what it says of each line, one after the other."""
    said = section._said

    def of_all(view: Any, _line: int, _pair: Any, layer: int, head: int) -> None:
        for pair in PAIRS:
            said(view, LISTED.first(pair), pair, layer, head)

    monkeypatch.setattr(section, "_said", of_all)
    asked = {"text": TEXT, "layer": "2", "head": "3", "line": str(line("variance ="))}
    return open_page("textbook", chapter="whole", **asked)


def test_every_line_says_the_shapes_of_the_sentence(every_line: AppTest) -> None:
    assert sent(every_line)["chosen"] == line("variance =")
    run = gpt2viz.trace(gpt2viz.load_model(), TEXT)
    shapes = {str(r.key): str(r.shape) for r in run.tensors if r.layer in (None, 2)}
    assert shapes["weights"] == "(1, 8, 5, 5)"
    shapes["last_logits"] = "(1, 5, 5120)"  # of all tokens
    written = tables_of(every_line)
    for pair in PAIRS:
        number = LISTED.first(pair)
        if pair.makes:
            table = written[f"What line {number} makes of your sentence"]
            assert list(table["shape here"]) == [shapes[key] for key in pair.makes]
        assert any(m.value.startswith(f"**Line {number}.**") for m in every_line.markdown)
    assert not written.keys() - {
        f"What line {LISTED.first(p)} makes of your sentence" for p in PAIRS
    }
    sizes = [m.value for m in every_line.markdown if m.value.startswith("Here **")]
    assert sizes == [
        "Here **B = 1** · **T = 5** · **C = 256**",
        "Here **nh = 8**",
        "Here **hs = 32**",
        "Here **T = 5**",
    ]


def test_every_line_leads_where_its_tensors_are(every_line: AppTest) -> None:
    of_run = tables.shape_table(gpt2viz.trace(gpt2viz.load_model(), TEXT))
    links = leads_to(every_line)
    for pair in PAIRS:
        keys = pair.makes or pair.towards
        there = [links.pop(0)] if set(keys) & set(HEAD_STAGES) else []
        for page, asked in there:
            assert (page, asked["layer"], asked["head"]) == ("head", "2", "3")
            assert {"query", "key"} <= asked.keys()
        if not keys:
            page, asked = links.pop(0)
            assert (page, asked["predict"]) == ("predict", "generate")
        for key in keys:
            if key in HEAD_STAGES:
                continue
            page, asked = links.pop(0)
            if key == "last_logits":
                assert (page, asked["predict"]) == ("predict", "next")
                continue
            assert page == "shapes"
            rows = tables.containing(of_run, asked["filter"])
            assert key in set(rows["key"]), key
            assert set(rows["layer"].dropna()) <= ({2} if STAGE[key].per_layer else set())


def test_a_click_is_told_and_no_click_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    chosen: list[int] = []
    monkeypatch.setattr(listings, "_draw", lambda **given: drawn.update(given))
    listings.draw_listings("x", ("a", "b"), (["1"], ["2"]), [1], {1: [1]}, 1, chosen.append)
    for told in (None, 1):
        state = {"x": type("State", (), {"line": told})}
        monkeypatch.setattr("streamlit.session_state", state)
        drawn["on_line_change"]()
    assert chosen == [1]
