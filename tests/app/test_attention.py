"""The first screen: the map of all heads, the opening head, and heads drawn by the browser."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app import address, parameters
from gpt2viz.app.components import attention as components
from gpt2viz.app.components.attention import line_heads
from gpt2viz.app.frame.examples import EXAMPLES
from gpt2viz.app.views import attention, edits
from gpt2viz.app.views.measures import MEASURES
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.pooling import THUMBNAIL
from gpt2viz.run.edits import parse_edits
from tests.app.cases import each
from tests.app.pages import (
    button_groups,
    canvas,
    check_line_data,
    chips,
    head_text,
    header_of,
    heatmaps,
    open_page,
    plain,
    unpack,
)
from tests.bundled import (
    CATS,
    CRANE,
    HEADS,
    N_HEAD,
    N_LAYER,
    hardest,
    opening,
    stages,
    weights,
)
from tests.js.test_scripts import HERE, run
from tests.numpy_gpt2 import softmax


def words(at: Any) -> str:
    written = " ".join(block.value for block in (*at.markdown, *at.caption))
    return f"{plain(written)} {head_text(at)}"


def head_of(at: Any) -> tuple[int, int]:
    return at.session_state["layer"], at.session_state["head"]


@each("text", [CATS, *(example.text for example in EXAMPLES)])
def test_opening_head_is_chosen_by_its_weights(text: str) -> None:
    best = opening(text)
    at = open_page("attention", text=text)
    assert head_of(at) == best
    assert f"We start with head {best[0]}.{best[1]}: " in words(at)
    assert not {"layer", "head"} & set(at.query_params)


def test_layer_or_head_alone_opens_its_best_head() -> None:
    distance = np.abs(hardest(weights(CRANE)) - 0.5).mean(axis=-1)
    at = open_page("attention", layer="3")
    assert head_of(at) == (3, distance[3].argmin())
    assert f"We start with head 3.{distance[3].argmin()}: " in words(at)
    at = open_page("attention", head="2")
    assert head_of(at) == (distance[:, 2].argmin(), 2)
    assert f"We start with head {distance[:, 2].argmin()}.2: " in words(at)
    assert (
        head_of(open_page("attention", head="99")) == head_of(open_page("attention")) == opening()
    )
    assert "We start with" not in words(open_page("attention", layer="3", head="2"))


def test_chosen_head_keeps_its_layer_for_another_sentence() -> None:
    at = open_page("head")
    layer, head = opening()
    assert head_of(at) == (layer, head)
    (heads,) = [group for group in button_groups(at) if group.key == "head"]
    heads.set_value(other := (head + 1) % N_HEAD).run()
    assert (at.query_params["layer"], at.query_params["head"]) == (str(layer), str(other))
    at.text_input(key="text").set_value(EXAMPLES[1].text).run()
    assert head_of(at) == (layer, other)


def test_single_token_opens_the_first_head() -> None:
    at = open_page("attention", text="x")
    assert head_of(at) == (0, 0)
    assert "a single token can attend only to itself" in words(at)
    assert "We start with" not in words(at), "equal heads have no best one"


@each("query", [None, "3", "7"])
def test_map_lists_the_strongest_links(query: str | None) -> None:
    text = "When Mary and John went to the garden, John gave the flower to Mary"
    result = weights(text)
    at = open_page("attention", text=text, **({} if query is None else {"query": query}))
    header = unpack(canvas(at, "all_heads"))[0]
    assert (header["layers"], header["heads"]) == result.shape[:2]
    assert header["token"] == (-1 if query is None else int(query))
    assert header["chosen"] == head_of(at)[0] * N_HEAD + head_of(at)[1]
    largest = hardest(result).reshape(HEADS, -1)
    assert len(header["links"]) == len(header["tokens"]) == result.shape[-1]
    for token, listed in enumerate(header["links"]):
        expected = sorted(largest[:, token], reverse=True)[: len(listed)]
        assert [float(weight) for *_, weight in listed] == pytest.approx(expected, abs=0.0051)
        for head, key, weight in listed:
            row = result.reshape(HEADS, *result.shape[2:])[head, token]
            assert row[key] == pytest.approx(float(weight), abs=0.0051)
            assert key not in (0, token)
    assert [len(listed) for listed in header["links"][:3]] == [0, 0, 5]


def test_mask_switch_reports_the_changes(model: gpt2viz.Model) -> None:
    layer, head = opening()
    on, off = (weights(CRANE, causal)[layer, head] for causal in (True, False))
    at = open_page("attention").toggle(key="causal").set_value(False).run()
    assert head_of(at) == (layer, head), "the head stays"
    row = int(hardest(off).argmax())
    shown = re.search(
        rf"\*\*Head {layer}.{head}\*\*: \S+ attends to (.*); with the mask on, (.*)\.", words(at)
    )
    assert shown
    for keys, of_row in zip(shown.groups(), (off[row], on[row]), strict=True):
        numbers = [float(n) for n in re.findall(r": (\d\.\d+)", keys)]
        expected = sorted((w for w in of_row if w >= 0.05), reverse=True)[:3]
        assert numbers == pytest.approx(expected, abs=0.0051)
    assert f"We start with head {layer}.{head}: " in words(at)
    (text,) = re.findall(
        r"The next token: “(.+)” (.+) %, with the mask on “(.+)” (.+) %\.", words(at)
    )
    for (token, percent), causal in ((text[:2], False), (text[2:], True)):
        p = softmax(stages(CRANE, causal)["logits"][-1])
        best = model.tokenizer.decode([int(p.argmax())]).replace(" ", "·")
        assert best == token.replace("\\", "")
        assert float(percent) == pytest.approx(100 * p.max(), abs=0.06)


def test_contributions_of_words_sum_to_next_token_logits(model: gpt2viz.Model) -> None:
    logits, trace = stages(CRANE)["logits"][-1], gpt2viz.trace(model, CRANE)
    coming, order = chips(open_page("attention"))["next"], (-logits).argsort()
    shown = [float(word["percent"].removesuffix(" %")) for word in coming]
    assert_allclose(shown, 100 * softmax(logits)[order[:5]], atol=0.51)
    for word, token in zip(coming, order, strict=False):
        assert word["label"] == model.tokenizer.decode([int(token)]).replace(" ", "·")
        assert word["logit"] == pytest.approx(logits[token], abs=1e-3)
        numbers = [of["value"] for of in word["words"]]
        total = sum(numbers) + word["others"] + word["mlps"] + word["rest"]
        assert total == pytest.approx(word["logit"], abs=1e-9)
        heads = gpt2viz.route(model, trace, int(token)).heads
        close: Any = {"rtol": 0, "atol": 1e-5}  # the page's run may reuse another's prefix
        assert_allclose(numbers, [heads[:, :, of["key"]].sum() for of in word["words"]], **close)
        assert_allclose(abs(numbers[0]), abs(heads.sum(axis=(0, 1))).max(), **close)
        for of in word["words"]:
            assert of["name"] == trace.labels[of["key"]]
            for layer, head, value in of["heads"]:
                assert_allclose(value, heads[layer, head, of["key"]], **close)
            assert_allclose(abs(of["heads"][0][2]), abs(heads[:, :, of["key"]]).max(), **close)
        mlps = gpt2viz.contributions(model, trace, int(token)).mlp
        assert_allclose(word["mlps"], mlps.sum(), **close)


@each("causal", ["true", "false"])
def test_arcs_of_a_long_sentence_show_the_chosen_head(causal: str) -> None:
    text = "The cat sat on the mat and the dog ran. " * 5
    sent = chips(open_page("attention", text=text, layer="1", head="2", causal=causal))
    rows = weights(text, causal == "true")[1, 2]
    assert sent["numbers"] == ""
    assert len(sent["arcs"]) == len(rows) > 45
    for row, arcs in zip(rows, sent["arcs"], strict=True):
        least = max(0.05, sorted(row)[-6])
        assert [key for key, weight in arcs if weight >= 0.05] == [
            n for n in (-row).argsort(kind="stable")[:6] if row[n] >= least
        ]
        assert [weight for _, weight in arcs] == pytest.approx(
            [row[key] for key, _ in arcs], abs=1e-5
        )


def test_next_tokens_with_heads_off_are_from_the_edited_run(model: gpt2viz.Model) -> None:
    at = open_page("attention", text=CRANE, edits="window:2,off:0.1,off:2.3")
    off = (gpt2viz.Edit("off", layer=0, head=1), gpt2viz.Edit("off", layer=2, head=3))
    changed = gpt2viz.trace(model, CRANE, edits=off).next_token_probabilities[0]
    sent = chips(at)
    assert [word["percent"] for word in sent["next"]] == [
        f"{100 * p:.0f} %" for p in np.sort(changed)[::-1][:5]
    ]
    assert sent["before"][0] == chips(open_page("attention", text=CRANE))["next"][0]
    assert unpack(canvas(at, "all_heads"))[0]["off"] == [1, 2 * N_HEAD + 3]
    assert "Layer 0 head 1 is off" in words(at)
    assert "Layer 2 head 3 is off" in words(at)
    at.button(key="all_on").click().run()
    assert chips(at)["before"] == []
    assert at.query_params["edits"] == "window:2"


def test_head_that_is_off_gives_no_token_anything() -> None:
    off = {"edits": "off:1.1", "layer": "1", "head": "1", "show": "norms"}
    for chosen in (off, off | {"query": "5"}):
        assert "no token takes anything" in head_text(open_page("attention", text=CATS, **chosen))


def test_head_switch_turns_off_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now: dict[Any, Any] = {parameters.EDITS: parse_edits("window:2")}
    monkeypatch.setattr(address, "get", now.__getitem__)
    monkeypatch.setattr(address, "put", now.__setitem__)
    edits.switch_head(1, 2)
    assert [str(edit) for edit in now[parameters.EDITS]] == ["window:2", "off:1.2"]
    edits.switch_head(1, 2)
    assert [str(edit) for edit in now[parameters.EDITS]] == ["window:2"]


def test_choosing_a_head_sets_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    put: dict[Any, Any] = {}
    monkeypatch.setattr(address, "put", lambda parameter, value: put.update({parameter: value}))
    attention._choose(1, 2, None)
    assert put == {parameters.LAYER: 1, parameters.HEAD: 2}
    attention._choose(3, 0, 4)
    assert put == {parameters.LAYER: 3, parameters.HEAD: 0, parameters.QUERY: 4}


def test_pooling_is_reported() -> None:
    long = "the cat sat on " * 12
    at = open_page("attention", text=long)
    assert "A long text is shrunk to 40 rows and columns" in words(at)
    assert {len(shown) for shown in heatmaps(at, "all_heads").values()} == {40}
    assert "shrunk" not in words(open_page("attention"))


#: A sentence of more tokens than words; some tokens and words occur twice.
PIECES = "I love 猫 🐈 and tea, unbelievable tea!"
#: A name with its position, if ambiguous, and the number of a key.
QUOTED = re.compile(r"“(\S+)”(?: \((\d+)\))?: (\d+\.\d\d)")


def test_description_of_the_large_head_matches_its_matrix() -> None:
    """Under every measure, by tokens and by words, with the mask and without; alternately for the
    chosen row and for the row with the largest weight."""
    problems = []
    for n, (shown, whole, causal) in enumerate(product(MEASURES, (False, True), (True, False))):
        query = ("", "5")[(n + n // 2 + n // 4) % 2]
        query_params = {"show": shown, "words": str(whole).lower(), "causal": str(causal).lower()}
        query_params |= {"query": query} if query else {}
        at = open_page("attention", text=PIECES, layer="2", head="6", **query_params)
        header, (numbers,), (masked,) = unpack(canvas(at, "one_head"))
        rows = header["grids"][header["panels"][0]["grid"]]["rows"]
        positions, names = zip(*(row.split(" ", 1) for row in rows), strict=True)
        text = header["head"]["descriptions"]["2.6"]
        description = re.sub("; with the mask on, .*", "", text)
        name, pos = re.match(r"“(\S+)”(?: \((\d+)\))?", description).groups()  # type: ignore[union-attr]
        row = names.index(name) if pos is None else positions.index(pos)
        messages = [
            (name, pos or positions[names.index(name)], pytest.approx(float(number), abs=0.0051))
            for name, pos, number in QUOTED.findall(description)
        ]
        largest = np.argsort(-numbers[row], kind="stable")[: len(messages)]
        if messages != [(names[n], positions[n], numbers[row][n]) for n in largest] or not messages:
            problems.append(f"{query_params}: {description}")
        if query and row != max(i for i, pos in enumerate(positions) if int(pos) <= int(query)):
            problems.append(f"{query_params}: of row {row}: {description}")
        sums = np.where(masked, 0, numbers).sum(axis=1)
        if "Every row sums to 1" in words(at) and abs(sums - 1).max() > 1e-3:
            problems.append(f"{query_params}: rows don't sum to 1")
    assert not problems, "\n".join(problems)


def test_strong_first_column_is_explained_where_it_occurs() -> None:
    """With the mask on, and without it if a head still rests on the first token."""
    problems = []
    for text, causal in product((CRANE, CATS, "x"), (True, False)):
        later = weights(text, causal)[:, :, 1:, 0]
        strong = later.size > 0 and later.mean(axis=-1).max() > 0.5
        at = open_page("attention", text=text, causal=str(causal).lower())
        requested = any("first column" in p.proto.popover.label for p in at.get("popover"))
        if requested != strong:
            problems.append(f"{text}, mask {causal}: asked {requested}")
    assert not problems, "\n".join(problems)


#: Names of several tokens each, which are grouped into words.
WORDS = "Rumpelstiltskin met Scheherazade"
LONG = " ".join(["one two three four"] * 10)

#: The parameters drawn by the server, and the choices made in the browser one at a time.
CHOICES: dict[str, tuple[dict[str, str], list[dict[str, str | None]]]] = {
    "a head": (
        {"text": CATS, "layer": "0", "head": "1", "query": "3"},
        [{"layer": "2", "head": "5"}, {"layer": "0", "head": "1"}, {"layer": "3", "head": "0"}],
    ),
    "a part": (
        {"text": CATS, "layer": "1", "head": "2", "query": "4"},
        [{"zoom": "2,6,0,5"}, {"zoom": "0,10,9,10"}, {"zoom": "5,10,1,10", "head": "7"}],
    ),
    "from a part": (
        {"text": CATS, "layer": "1", "head": "2", "zoom": "1,4,0,3"},
        [{"zoom": None}, {"zoom": "0,10,0,2"}, {"zoom": None, "head": "4"}, {"picture": "lines"}],
    ),
    "a token": (
        {"text": CATS, "layer": "1", "head": "2", "query": "4"},
        [
            {"query": "0"},
            {"query": None},
            {"query": "9", "head": "7", "layer": "3"},
            {"query": "5", "zoom": "1,4,0,10"},
            {"query": "3", "picture": "lines", "more": "6", "zoom": "2,10,0,6"},
        ],
    ),
    "as lines": (
        {"text": CATS, "layer": "2", "head": "3", "query": "2"},
        [
            {"picture": "lines"},
            {"picture": "lines", "more": "1,3,4"},
            {"picture": "lines", "more": "7", "layer": "1", "zoom": "0,9,0,10"},
            {"picture": "lines", "zoom": "5,8,2,8"},
        ],
    ),
    "from lines": (
        {"text": CATS, "layer": "2", "head": "3", "picture": "lines", "more": "0,1,2,4,5"},
        [
            {"picture": "matrix"},
            {"more": None},
            {"more": "5,4"},
            {"head": "2"},
            {"zoom": "1,3,1,3"},
        ],
    ),
    "the mask off": (
        {"text": CATS, "layer": "2", "head": "3", "causal": "false"},
        [{"head": "0"}, {"picture": "lines"}, {"zoom": "0,3,4,10"}],
    ),
    "whole words": (
        {"text": WORDS, "layer": "2", "head": "3", "words": "true", "query": "1"},
        [{"head": "0"}, {"picture": "lines", "more": "1"}, {"zoom": "0,3,0,2", "layer": "0"}],
    ),
    "lengths": (
        {"text": CATS, "layer": "2", "head": "3", "show": "norms"},
        [{"picture": "lines"}, {"zoom": "1,6,0,5"}, {"picture": "lines", "zoom": "1,6,0,5"}],
    ),
    "without the first column": (
        {"text": CATS, "layer": "2", "head": "3", "show": "rest"},
        [{"picture": "lines"}, {"zoom": "0,2,0,2"}],
    ),
    "one token": ({"text": "A", "layer": "0", "head": "0"}, [{"head": "1"}, {"picture": "lines"}]),
    "many tokens": (
        {"text": LONG, "layer": "0", "head": "0"},
        [{"layer": "3", "head": "7"}, {"picture": "lines", "more": "1,2,3"}],
    ),
}


def browser_pictures(drawn: AppTest, choices: list[dict[str, str | None]], folder: Path) -> Any:
    """The pictures that the scripts draw from the server's messages."""
    there = [c for c in drawn.get("bidi_component") if c.proto.id.endswith("-head_numbers")]
    sent = {"head": canvas(drawn, "one_head"), "numbers": there[0].proto.bytes if there else b""}
    texts = {name: b64encode(message).decode() for name, message in sent.items()}
    (folder / "sent").write_text(json.dumps(texts | {"choices": choices}), encoding="utf-8")
    answer = run(HERE / "of_heads.js", folder / "sent")
    assert not answer.returncode, answer.stderr
    return json.loads(answer.stdout)


def redraw(drawn: dict[str, str], choice: dict[str, str | None]) -> AppTest:
    """The page as the server draws it with a choice."""
    expected = {name: value for name, value in {**drawn, **choice}.items() if value is not None}
    return open_page("attention", **expected)


def flatten(matrices: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([matrix.ravel() for matrix in matrices])


@each("name", CHOICES)
def test_browser_draws_like_the_server(name: str, tmp_path: Path) -> None:
    drawn, choices = CHOICES[name]
    result = browser_pictures(open_page("attention", **drawn), choices, tmp_path)
    for choice, here in zip(choices, result, strict=True):
        at = redraw(drawn, choice)
        header, values, masked = unpack(canvas(at, "one_head"))
        panels = [{**header["grids"][panel["grid"]], **panel} for panel in header["panels"]]
        keys = panels[0].keys() - {"grid", "low", "high"}
        assert [{key: panel[key] for key in keys} for panel in here["panels"]] == [
            {key: panel[key] for key in keys} for panel in panels
        ], choice
        assert_array_equal(here["bits"], flatten(values).astype("<f4").view(np.uint32))
        assert_array_equal(here["masked"], flatten(masked))
        assert here["legend"] == header["legend"]
        assert here["asks"] == header["asks"]
        head = header["head"]
        text = head["descriptions"][f"{head['layer']}.{head['head']}"]
        assert here["description"] in (None, text), "None keeps the server's"
        if len(panels) == 1:  # lines of several heads have a scale of their own
            assert [here["panels"][0][end] for end in ("low", "high")] == [
                panels[0][end] for end in ("low", "high")
            ]
            assert here["decimals"] == header["decimals"]
        if (drawn | choice).get("picture") == "lines":
            check_browser_lines(at, here["lines"], (drawn | choice).get("query"))


def check_browser_lines(at: AppTest, lines: dict[str, Any], query: str | None) -> None:
    """The browser's lines equal those of the server."""
    (picture,) = (p for p in at.session_state["_shown"].pictures.values() if isinstance(p, Lines))
    assert f"{lines['alt']}, as lines" == picture.what
    check_line_data(lines, picture)
    row = None if query is None else picture.rows.row_at(int(query))
    assert lines["chosen"] == (-1 if row is None else row)


@each("text", [CATS, "A", "A a", WORDS, LONG])
def test_browser_describes_heads_like_the_server(text: str, tmp_path: Path) -> None:
    at = open_page("attention", text=text)
    every = [divmod(n, N_HEAD) for n in range(N_LAYER * N_HEAD)]
    T = len(at.session_state["_shown"].runs["The run"].token_ids)
    queries = [None, *map(str, sorted({0, T // 2, T - 1}))]
    choices: list[dict[str, str | None]] = [
        {"layer": str(layer), "head": str(head), "query": query}
        for query in queries
        for layer, head in every
    ]
    result = browser_pictures(at, choices, tmp_path)
    drawn = [at, *(redraw({"text": text}, {"query": query}) for query in queries[1:])]
    expected = [header_of(canvas(page, "one_head"))["head"]["descriptions"] for page in drawn]
    assert [here["description"] for here in result] == [
        texts[f"{layer}.{head}"] for texts in expected for layer, head in every
    ]


@each(
    ("chosen", "sent"),
    [
        ({"text": CATS}, True),
        ({"text": CATS, "words": "true"}, True),
        ({"text": " ".join(["one"] * THUMBNAIL)}, True),
        ({"text": " ".join(["one"] * (THUMBNAIL + 1))}, False),
        ({"text": CATS, "show": "norms"}, False),
        ({"text": CATS, "show": "rest"}, False),
    ],
)
def test_all_heads_are_sent_once_when_weights_are_shown(chosen: dict[str, str], sent: bool) -> None:
    first = open_page("attention", layer="0", head="1", **chosen)
    there = [c.proto.bytes for c in first.get("bidi_component") if c.proto.id.endswith("numbers")]
    head = header_of(canvas(first, "one_head"))["head"]
    assert len(there) == sent
    assert bool(head["numbers"]) == sent
    if not sent:
        assert list(head["descriptions"]) == ["0.1"]
        return
    assert head["numbers"] == header_of(there[0])["name"]
    assert len(head["descriptions"]) == N_LAYER * N_HEAD
    other = open_page("attention", layer="3", head="2", query="0", **chosen)
    assert [
        c.proto.bytes for c in other.get("bidi_component") if c.proto.id.endswith("numbers")
    ] == there


def test_too_many_numbers_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "_MOST_NUMBERS", N_LAYER * N_HEAD * 10 * 10 - 1)
    assert not header_of(canvas(open_page("attention", text=CATS), "one_head"))["head"]["numbers"]


def test_lines_show_at_most_four_distinct_heads() -> None:
    assert line_heads(2, [0, 2, 3, 4, 5]) == [2, 0, 3, 4]
    assert line_heads(0, []) == [0]
