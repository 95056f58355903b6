"""What the browser draws of another head or part, or as lines, is what the server would send."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from streamlit.testing.v1 import AppTest

from gpt2viz.app.components import head_numbers
from gpt2viz.app.components.head_picture import together
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.thumbnails import THUMBNAIL
from tests.app.pages import canvas, open_page, plain, said, unpacked
from tests.bundled import N_HEAD, N_LAYER
from tests.js.test_scripts import HERE, run

CAT = "The cat sat on the mat and the cat sat"
#: Names of characters, each of several tokens, so that words have tokens to be grouped of.
WORDS = "Rumpelstiltskin met Scheherazade"
LONG = " ".join(["one two three four"] * 10)

#: What the server has drawn, and what is then chosen in the browser, one choice each.
CHOICES: dict[str, tuple[dict[str, str], list[dict[str, str | None]]]] = {
    "a head": (
        {"text": CAT, "layer": "0", "head": "1", "query": "3"},
        [{"layer": "2", "head": "5"}, {"layer": "0", "head": "1"}, {"layer": "3", "head": "0"}],
    ),
    "a part": (
        {"text": CAT, "layer": "1", "head": "2", "query": "4"},
        [{"zoom": "2,6,0,5"}, {"zoom": "0,10,9,10"}, {"zoom": "5,10,1,10", "head": "7"}],
    ),
    "from a part": (
        {"text": CAT, "layer": "1", "head": "2", "zoom": "1,4,0,3"},
        [{"zoom": None}, {"zoom": "0,10,0,2"}, {"zoom": None, "head": "4"}, {"picture": "lines"}],
    ),
    "a token": (
        {"text": CAT, "layer": "1", "head": "2", "query": "4"},
        [
            {"query": "0"},
            {"query": None},
            {"query": "9", "head": "7", "layer": "3"},
            {"query": "5", "zoom": "1,4,0,10"},
            {"query": "3", "picture": "lines", "more": "6", "zoom": "2,10,0,6"},
        ],
    ),
    "as lines": (
        {"text": CAT, "layer": "2", "head": "3", "query": "2"},
        [
            {"picture": "lines"},
            {"picture": "lines", "more": "1,3,4"},
            {"picture": "lines", "more": "7", "layer": "1", "zoom": "0,9,0,10"},
            {"picture": "lines", "zoom": "5,8,2,8"},
        ],
    ),
    "from lines": (
        {"text": CAT, "layer": "2", "head": "3", "picture": "lines", "more": "0,1,2,4,5"},
        [
            {"picture": "matrix"},
            {"more": None},
            {"more": "5,4"},
            {"head": "2"},
            {"zoom": "1,3,1,3"},
        ],
    ),
    "the mask off": (
        {"text": CAT, "layer": "2", "head": "3", "causal": "false"},
        [{"head": "0"}, {"picture": "lines"}, {"zoom": "0,3,4,10"}],
    ),
    "whole words": (
        {"text": WORDS, "layer": "2", "head": "3", "words": "true", "query": "1"},
        [{"head": "0"}, {"picture": "lines", "more": "1"}, {"zoom": "0,3,0,2", "layer": "0"}],
    ),
    "lengths": (
        {"text": CAT, "layer": "2", "head": "3", "show": "norms"},
        [{"picture": "lines"}, {"zoom": "1,6,0,5"}, {"picture": "lines", "zoom": "1,6,0,5"}],
    ),
    "without the first column": (
        {"text": CAT, "layer": "2", "head": "3", "show": "rest"},
        [{"picture": "lines"}, {"zoom": "0,2,0,2"}],
    ),
    "one token": ({"text": "A", "layer": "0", "head": "0"}, [{"head": "1"}, {"picture": "lines"}]),
    "many tokens": (
        {"text": LONG, "layer": "0", "head": "0"},
        [{"layer": "3", "head": "7"}, {"picture": "lines", "more": "1,2,3"}],
    ),
}
CASES = [(name, n) for name, (_, choices) in CHOICES.items() for n in range(len(choices))]


def in_browser(drawn: AppTest, choices: list[dict[str, str | None]], folder: Path) -> Any:
    """What the scripts make of what the server has sent."""
    there = [one for one in drawn.get("bidi_component") if one.proto.id.endswith("-head_numbers")]
    sent = {"head": canvas(drawn, "one_head"), "numbers": there[0].proto.bytes if there else b""}
    texts = {name: b64encode(message).decode() for name, message in sent.items()}
    (folder / "sent").write_text(json.dumps(texts | {"choices": choices}), encoding="utf-8")
    answer = run(HERE / "of_heads.js", folder / "sent")
    assert not answer.returncode, answer.stderr
    return json.loads(answer.stdout)


def anew(drawn: dict[str, str], choice: dict[str, str | None]) -> AppTest:
    """The page as the server draws it with what is chosen."""
    wanted = {name: value for name, value in {**drawn, **choice}.items() if value is not None}
    return open_page("attention", **wanted)


def flat(matrices: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([one.ravel() for one in matrices])


@pytest.mark.parametrize("name", CHOICES)
def test_the_browser_draws_what_the_server_would(name: str, tmp_path: Path) -> None:
    drawn, choices = CHOICES[name]
    found = in_browser(open_page("attention", **drawn), choices, tmp_path)
    for choice, here in zip(choices, found, strict=True):
        at = anew(drawn, choice)
        header, values, masked = unpacked(canvas(at, "one_head"))
        panels = [{**header["grids"][one["grid"]], **one} for one in header["panels"]]
        kept = panels[0].keys() - {"grid", "low", "high"}
        assert [{key: one[key] for key in kept} for one in here["panels"]] == [
            {key: one[key] for key in kept} for one in panels
        ], choice
        assert_array_equal(here["bits"], flat(values).astype("<f4").view(np.uint32))
        assert_array_equal(here["masked"], flat(masked))
        assert here["legend"] == header["legend"]
        assert here["asks"] == header["asks"]
        if len(panels) == 1:  # of several heads the lines have a scale of their own
            assert [here["panels"][0][end] for end in ("low", "high")] == [
                panels[0][end] for end in ("low", "high")
            ]
            assert here["decimals"] == header["decimals"]


@pytest.mark.parametrize("text", [CAT, "A", "A a", WORDS, LONG])
def test_what_a_head_does_is_told_in_the_same_words(text: str, tmp_path: Path) -> None:
    at = open_page("attention", text=text)
    every = [divmod(n, N_HEAD) for n in range(N_LAYER * N_HEAD)]
    tokens = range(len(at.session_state["_shown"].runs["The run"].token_ids))
    queries = [None, *map(str, [tokens[0], tokens[len(tokens) // 2], tokens[-1]])]
    choices: list[dict[str, str | None]] = [
        {"layer": str(layer), "head": str(head), "query": query}
        for query in queries
        for layer, head in every
    ]
    found = in_browser(at, choices, tmp_path)
    expected = [
        said(canvas(anew({"text": text}, {"query": query}), "one_head"))["head"]["does"]
        for query in queries
    ]
    assert [here["does"] for here in found] == [
        does[f"{layer}.{head}"] for does in expected for layer, head in every
    ]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, True),
        ({"causal": "false"}, False),
        ({"words": "true"}, False),
        ({"show": "norms"}, False),
    ],
)
def test_the_server_tells_it_where_the_weights_alone_do_not(
    more: dict[str, str], told: bool
) -> None:
    names = said(canvas(open_page("attention", text="a cat cat", **more), "one_head"))["head"][
        "names"
    ]
    assert names == (["a", "·cat (1)", "·cat (2)"] if told else [])


@pytest.mark.parametrize("name", CHOICES)
def test_its_lines_are_those_that_the_server_would_draw(name: str, tmp_path: Path) -> None:
    drawn, choices = CHOICES[name]
    lined = [choice for choice in choices if (drawn | choice).get("picture") == "lines"]
    found = in_browser(open_page("attention", **drawn), lined, tmp_path)
    for choice, here in zip(lined, found, strict=True):
        at = anew(drawn, choice)
        shown = at.session_state["_shown"].pictures
        (picture,) = (one for one in shown.values() if isinstance(one, Lines))
        lines = here["lines"]
        assert f"{lines['alt']}, as lines" == picture.what
        assert [one["name"] for one in lines["sources"]] == [one.name for one in picture.sources]
        for one, expected in zip(lines["sources"], picture.sources, strict=True):
            assert_array_equal(one["q"], expected.queries)
            assert_array_equal(one["k"], expected.keys)
            assert_array_equal(np.float32(one["v"]), expected.weights)
        assert (lines["kept"], lines["rest"]) == pytest.approx((picture.kept, picture.at_rest))
        assert_allclose([lines["peak"], lines["lost"]], [picture.peak, picture.lost], atol=1e-6)
        assert lines["quantity"] == picture.quantity
        for side, axis in (("queries", picture.rows), ("keys", picture.columns)):
            assert lines[side] == [
                [axis.position(n), text] for n, text in enumerate(axis.short())
            ], choice
        query = (drawn | choice).get("query")
        place = None if query is None else picture.rows.place(int(query))
        assert lines["chosen"] == (-1 if place is None else place)


@pytest.mark.parametrize(
    ("chosen", "sent"),
    [
        ({"text": CAT}, True),
        ({"text": CAT, "words": "true"}, True),
        ({"text": " ".join(["one"] * THUMBNAIL)}, True),
        ({"text": " ".join(["one"] * (THUMBNAIL + 1))}, False),
        ({"text": CAT, "show": "norms"}, False),
        ({"text": CAT, "show": "rest"}, False),
    ],
)
def test_every_head_is_sent_once_where_its_numbers_are_what_is_shown(
    chosen: dict[str, str], sent: bool
) -> None:
    first = open_page("attention", layer="0", head="1", **chosen)
    there = [c.proto.bytes for c in first.get("bidi_component") if c.proto.id.endswith("numbers")]
    head = said(canvas(first, "one_head"))["head"]
    assert len(there) == sent
    assert bool(head["numbers"]) == sent
    if not sent:
        assert list(head["does"]) == ["0.1"]
        return
    assert head["numbers"] == said(there[0])["name"]
    assert len(head["does"]) == N_LAYER * N_HEAD
    other = open_page("attention", layer="3", head="2", query="0", **chosen)
    assert [
        c.proto.bytes for c in other.get("bidi_component") if c.proto.id.endswith("numbers")
    ] == there


def test_more_numbers_than_a_message_may_have_stay_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(head_numbers, "MOST", N_LAYER * N_HEAD * 10 * 10 - 1)
    at = open_page("attention", text=CAT)
    assert not said(canvas(at, "one_head"))["head"]["numbers"]


def test_the_words_of_every_head_are_those_that_it_has_when_it_is_chosen() -> None:
    for more in ({}, {"causal": "false"}, {"query": "3"}):
        every = said(canvas(open_page("attention", text=CAT, **more), "one_head"))["head"]["does"]
        for layer, head in ((0, 0), (1, 6), (3, 7)):
            place = {"layer": str(layer), "head": str(head)}
            chosen = said(canvas(open_page("attention", text=CAT, **place, **more), "one_head"))
            assert chosen["head"]["does"][f"{layer}.{head}"] == every[f"{layer}.{head}"]
    assert "with the mask on at" in str(
        said(canvas(open_page("attention", text=CAT, causal="false"), "one_head"))["head"]["does"]
    )


def test_four_heads_at_most_and_none_twice() -> None:
    assert together(2, [0, 2, 3, 4, 5]) == [2, 0, 3, 4]
    assert together(0, []) == [0]


def test_every_layer_is_checked_where_every_head_can_be_drawn() -> None:
    def tips(text: str) -> list[str]:
        pages = [open_page("attention", text=text, head="0", layer=n) for n in ("0", "3")]
        return [
            plain(next(one.help for one in at.caption if "checked" in one.value)) for at in pages
        ]

    first, last = tips(CAT)
    assert first == last
    first, last = tips(" ".join(["one"] * (THUMBNAIL + 1)))
    assert first != last
