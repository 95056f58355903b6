"""Every picture says in words what it shows, and its numbers are there as a table."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.export import figure_table
from tests.app.pages import PAGES, open_page

CHAPTERS = ("tokens", "order", "crane", "by-hand", "mask", "heads", "mlp", "residual", "whole")
CHAPTERS += ("next-word", "mistakes")
VIEWS = [(page, {}) for page in PAGES]
VIEWS += [("find", {"find": way}) for way in ("look", "pattern", "head")]
VIEWS += [("two", {"differs": what}) for what in ("head", "mask", "edits")]
VIEWS += [("whatif", {"edits": "off:0.1"}), ("attention", {"picture": "lines"})]
VIEWS += [("textbook", {"chapter": name}) for name in CHAPTERS]


def pictures(at: AppTest) -> list[str]:
    """The text alternative of every chart on the page."""
    return [chart.proto.alt for chart in at.get("plotly_chart")]


@pytest.mark.parametrize(("page", "view"), VIEWS, ids=str)
def test_every_picture_has_words_and_a_table(page: str, view: dict[str, str]) -> None:
    at = open_page(page, text="the cat saw the cat", layer="1", head="2", **view)
    shown = at.session_state["_shown"]
    alts = pictures(at)
    assert len(alts) == len(shown.pictures)
    for alt in alts:
        assert len(alt.split()) > 1, alt
    for name, drawn in shown.pictures.items():
        assert len(figure_table(drawn)), name
    for name, numbers in shown.numbers.items():
        assert {"query", "key", "value"} < set(numbers.columns), name


def test_lines_have_words_and_a_table_too() -> None:
    at = open_page("attention", text="Dog bites man", picture="lines", layer="1", head="2")
    ((name, numbers),) = at.session_state["_shown"].numbers.items()
    assert name == "Attention weights of layer 1, head 2, as lines"
    assert numbers.iloc[0].to_dict() == {
        "picture": "Head 2",
        "query": "0 Dog",
        "key": "0 Dog",
        "value": pytest.approx(1),
    }
