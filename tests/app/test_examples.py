"""Each example shows what its line says: held against the NumPy GPT-2, and habits counted here."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.app.frame.examples import EXAMPLES, Example
from tests.app.pages import open_page, plain
from tests.bundled import N_LAYER
from tests.docs.examples import PROMISES, Candidate, picked, row_of

SAID = re.compile(
    r"\*\*Layer (?P<layer>\d+) · Head (?P<head>\d+)\*\* (?P<shows>.+): (?P<asks>\S+) looks at "
    r"(?P<seen>.+)\."
)


def choose(example: Example, **chosen: str) -> AppTest:
    at = open_page("attention", **chosen)
    at.session_state["examples"] = True
    at.run()
    at.button(key=f"example_{example.name}").click().run()
    assert not at.exception
    return at


def line(at: AppTest) -> re.Match[str] | None:
    said = (SAID.search(plain(block.value)) for block in at.caption)
    return next(filter(None, said), None)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_is_a_view_in_which_its_line_holds(example: Example) -> None:
    at = choose(example)
    assert at.text_input(key="text").value == example.text
    found = line(at)
    assert found
    assert found["shows"] == example.shows
    head, row = row_of(example.habit, Candidate(example.text, example.word, example.of))
    seen, query = row.weights, int(at.query_params["query"])
    assert (found["layer"], found["head"]) == tuple(map(str, head))
    assert (at.query_params["layer"], at.query_params["head"]) == tuple(map(str, head))
    assert query == row.query
    assert row.tokens[query].strip() == example.word == found["asks"].strip("·")
    told = re.findall(r"(\S+) \((\d\.\d\d)\)", found["seen"])
    best = [n for n in (-seen).argsort()[:2] if seen[n] >= 0.1]
    best += [row.key] if row.key is not None and row.key not in best else []
    assert [word.replace("·", " ").replace("\\", "") for word, _ in told] == [
        row.tokens[n] for n in best
    ]
    assert [float(n) for _, n in told] == pytest.approx([seen[n] for n in best], abs=0.006)
    assert PROMISES[example.habit].kept(row)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_sentence_is_the_first_that_keeps_the_promise(example: Example) -> None:
    """Where this fails: python -m tests.docs.examples"""
    assert picked(example) == (example.text, example.word, example.of)


def test_the_line_goes_with_the_view() -> None:
    params = choose(EXAMPLES[2]).query_params
    chosen = {name: str(params[name]) for name in ("text", "layer", "head", "query")}
    assert line(open_page("attention", **chosen))
    assert line(open_page("head", **chosen))
    other = str((int(chosen["layer"]) + 1) % N_LAYER)
    assert not line(open_page("attention", **chosen | {"layer": other}))
    assert not line(open_page("shapes", **chosen))  # it shows no head
    assert not line(open_page("attention", **chosen | {"text": "Man bites dog"}))


def test_an_example_goes_along_with_the_token_that_is_put_first() -> None:
    at = choose(EXAMPLES[0], endoftext="true")
    found = line(at)
    assert found
    assert at.query_params["query"] == "4"
    assert found["asks"] == "·fish"
