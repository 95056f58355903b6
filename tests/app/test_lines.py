"""Matrix or lines: chosen in the address, and every line is the number of an independent GPT-2."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

from gpt2viz.app import output
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.pictures.lines import Lines
from tests.app.cases import each
from tests.app.pages import canvas, header_of, heatmaps, hold_lines, open_page, pictures
from tests.bundled import weights
from tests.js.test_scripts import HERE, run
from tests.numpy_gpt2 import Tolerance, reference

PAGES = {"head": "stage_weights", "side_by_side": "layers_chart"}
PAGES |= {
    "side_by_side?differs=mask": "both_sides",
    "what_if": "both_sides",
    "side_by_side?differs=text": "weights_a",
    "find": "best_heads",
}
TEXT, SECOND = "A crane ate fish", "The steel was lifted by a crane"
TOLERANCE: Tolerance = {"rtol": 2e-3, "atol": 2e-3}


def drawn(at: AppTest, folder: Path, **choice: str | None) -> dict[str, list[dict[str, Any]]]:
    """The lines that the browser draws once something is chosen there: each picture, by its key."""
    parts = (c.proto for c in at.get("bidi_component") if c.proto.bytes)
    sent = {
        part.id.split("-")[-1]: b64encode(part.bytes).decode()
        for part in parts
        if "either" in header_of(part.bytes)
    }
    (folder / "sent").write_text(json.dumps({"sent": sent, "choice": choice}), encoding="utf-8")
    answer = run(HERE / "of_lines.js", folder / "sent")
    assert not answer.returncode, answer.stderr
    results: dict[str, list[dict[str, Any]]] = json.loads(answer.stdout)
    return results


def matrices(data: dict[str, Any]) -> list[np.ndarray]:
    """A picture's lines laid back into matrices, NaN where there is none."""
    results = []
    for source in data["sources"]:
        matrix = np.full((len(data["queries"]), len(data["keys"])), np.nan)
        matrix[source["q"], source["k"]] = source["v"]
        assert np.isfinite(matrix).sum() == len(source["v"])
        results.append(matrix)
    return results


def alone(data: dict[str, Any]) -> np.ndarray:
    (only,) = matrices(data)
    return only


def remembered(at: AppTest) -> list[Lines]:
    """The pictures of lines that the server remembers."""
    shown: output.PageOutputs = at.session_state["_shown"]
    return [picture for picture in shown.pictures.values() if isinstance(picture, Lines)]


def agree(drawn: np.ndarray, expected: np.ndarray) -> None:
    """Lines are the numbers, and what is no line is below what they begin with."""
    there = np.isfinite(drawn)
    assert_allclose(drawn[there], expected[there], **TOLERANCE)
    assert (expected[~there] < 0.01 + 2e-3).all()


@each(
    ("page", "chosen"),
    [
        ("side_by_side", {}),
        ("side_by_side?differs=head", {}),
        *(
            (page, {"query": "2", "zoom": "1,4,0,3"})
            for page in (*PAGES, "find?find=head", "textbook?chapter=heads")
        ),
    ],
)
def test_lines_take_the_place_of_the_matrix_and_are_those_that_the_server_tells_of(
    page: str, chosen: dict[str, str], tmp_path: Path
) -> None:
    """Whichever of both the browser was sent, in their order on the page."""
    at = open_page(page, text=TEXT, picture="lines", **chosen)
    stored, result = remembered(at), drawn(at, tmp_path)
    shown: output.PageOutputs = at.session_state["_shown"]
    names = {picture.what for picture in stored}
    assert names == {name for name in shown.pictures if ", as lines" in name} != set()
    assert names <= shown.tables.keys()
    if page in PAGES:
        assert header_of(canvas(at, PAGES[page]))["either"]["picture"] == "lines"
    for picture in stored:
        assert {"query", "key", "value"} < set(picture.table().columns)
        assert len(picture.table())
    here = [lines for several in result.values() for lines in several]
    of_lines = {name for name in pictures(at) if name.rstrip("_0123") in result}
    messages = [alt for name, alt in pictures(at).items() if name in of_lines]
    for lines, picture, alt in zip(here, stored, messages, strict=True):
        assert alt == lines["alt"]
        assert alt.startswith(f"{picture.what}. ")
        assert f"{lines['shows']}, as lines".endswith(picture.what)
        hold_lines(lines, picture)
    for lines in here:
        del lines["alt"]
    if page == "find":
        return  # the probe's tokens are shrunk in small matrices: the server has the others
    other = open_page(page, text=TEXT, **chosen)
    assert not remembered(other)
    assert shown.pictures.keys() - names < other.session_state["_shown"].pictures.keys()
    matrix = drawn(other, tmp_path)
    for lines in (lines for several in matrix.values() for lines in several):
        assert re.fullmatch(r".*, as lines[.] All its numbers are in the menu.*", lines.pop("alt"))
    assert matrix == result


#: The part that was sent, the one that is chosen then, and how that is called.
PARTS: list[tuple[dict[str, str], str | None, str]] = [
    ({}, "1,4,0,3", "queries 1 to 3, keys 0 to 2"),
    ({"zoom": "1,4,0,3"}, None, "the whole text"),
    ({"zoom": "1,4,0,3"}, "0,2,1,2", "queries 0 to 1, keys 1"),
]


@each(
    ("page", "part"),
    [
        *(("head", part) for part in PARTS),
        ("side_by_side", PARTS[2]),
        ("side_by_side?differs=mask", PARTS[1]),
        ("what_if?edits=off:0.1", PARTS[0]),
    ],
)
def test_lines_of_a_part_that_is_chosen_in_the_browser(
    page: str, part: tuple[dict[str, str], str | None, str], tmp_path: Path
) -> None:
    before, now, words = part
    result = drawn(open_page(page, text=TEXT, query="1", **before), tmp_path, zoom=now)
    then = {} if now is None else {"zoom": now}
    expected = drawn(open_page(page, text=TEXT, query="1", **then), tmp_path)
    assert result.keys() == expected.keys()
    for key, several in result.items():
        for lines, other in zip(several, expected[key], strict=True):
            assert lines.pop("alt").endswith(f", as lines, {words}.")
            del other["alt"], lines["shows"], other["shows"]
            assert lines == other


def test_two_sentences_side_by_side(tmp_path: Path) -> None:
    chosen = {"layer": "2", "head": "3"}
    at = open_page("side_by_side?differs=text", text=TEXT, text2=SECOND, query="1", **chosen)
    result = drawn(at, tmp_path)
    (a,), (b,) = result["weights_a"], result["weights_b"]
    agree(alone(a), weights(TEXT)[2][3])
    agree(alone(b), weights(SECOND)[2][3])
    assert [a["chosen"], b["chosen"]] == [1, 6]  # both are crane
    assert b["queries"][6] == [6, "·crane"]
    assert [a["title"], b["title"]] == [
        "A: First sentence · layer 2, head 3",
        "B: Second sentence · layer 2, head 3",
    ]


def test_layers_are_told_apart_by_their_names(tmp_path: Path) -> None:
    at = open_page("side_by_side", text=TEXT, layers="0,1,3", head="5")
    (together,) = drawn(at, tmp_path)["layers_chart"]
    assert [source["name"] for source in together["sources"]] == ["Layer 0", "Layer 1", "Layer 3"]
    for result, layer in zip(matrices(together), (0, 1, 3), strict=True):
        agree(result, weights(TEXT)[layer][5])
    assert len(set(together["colors"])) == 3
    assert not together["title"]


def test_a_token_hidden_by_an_edit_is_no_line(tmp_path: Path) -> None:
    at = open_page("what_if", text=TEXT, edits="forbid:3:0", layer="0", head="2")
    expected = weights(TEXT)[0][2]
    before, changed = map(alone, drawn(at, tmp_path)["both_sides"])
    agree(before, expected)
    assert np.isnan(changed[3, 0])
    assert expected[3, 0] > 0.01
    rest = expected[3, 1:] / expected[3, 1:].sum()  # layer 0 reads the same: only the row is shared
    agree(changed[3, 1:], rest)
    agree(changed[:3], expected[:3])


def test_one_head_lights_up_no_token_that_nobody_chose(tmp_path: Path) -> None:
    chosen = {"text": TEXT, "layer": "1", "head": "2"}
    (result,) = drawn(open_page("head", **chosen), tmp_path)["stage_weights"]
    agree(alone(result), weights(TEXT)[1][2])
    assert result["chosen"] == -1
    (result,) = drawn(open_page("head", query="2", **chosen), tmp_path)["stage_weights"]
    assert result["chosen"] == 2


def test_the_best_heads_and_the_chosen_one(tmp_path: Path) -> None:
    at = open_page("find", text=TEXT, find="head", layer="1", head="2", query="2")
    run, result = weights(TEXT), drawn(at, tmp_path)
    agree(alone(result["chosen_head"][0]), run[1][2])
    ranked = at.dataframe[0].value
    for n, lines in enumerate(result["best_heads"]):
        layer, head = int(ranked["layer"][n]), int(ranked["head"][n])
        agree(alone(lines), run[layer][head])
        assert lines["title"].startswith(f"Layer {layer} · Head {head}: ")
        assert lines["chosen"] == 2
    assert len(result["best_heads"]) == 4


def test_a_chapter_of_the_textbook_shows_a_real_head_both_ways(tmp_path: Path) -> None:
    chosen = {"chapter": "heads", "text": TEXT, "layer": "1", "head": "2", "query": "2"}
    expected = weights(TEXT)[1][2]
    at = open_page("textbook", **chosen)
    assert_allclose(heatmaps(at, "real_head")["weights"], expected, **TOLERANCE)
    agree(alone(drawn(at, tmp_path)["real_head"][0]), expected)


def test_the_best_heads_on_the_probe_choose_no_token_of_the_sentence(tmp_path: Path) -> None:
    """Its 100 tokens are shrunk in small matrices, and all of them are there as lines."""
    small = heatmaps(open_page("find", text=TEXT), "best_heads").values()
    assert {matrix.shape for matrix in small} == {(64, 64)}
    at = open_page("find", text=TEXT, query="2", picture="lines")
    ranked = at.dataframe[0].value
    probe = [int(n) for n in np.random.default_rng(0).choice(5120, 50, replace=False)] * 2
    run, result = reference(BUNDLED, probe, True)["weights"], drawn(at, tmp_path)["best_heads"]
    assert len(heatmaps(at, "best_heads")) == len(result) == 4
    for n, lines in enumerate(result):
        layer, head = int(ranked["layer"][n]), int(ranked["head"][n])
        agree(alone(lines), run[layer][head])
        assert lines["chosen"] == -1
        assert lines["quantity"] == "attention weight"
    assert "Sentence of" not in pictures(open_page("find", picture="lines"))["best_heads"]


def test_a_second_sentence_too_long_for_lines_is_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt2viz.app.view.GRID", 6)
    at = open_page("side_by_side?differs=text", text=TEXT, text2=SECOND, picture="lines")
    assert {"weights_a", "weights_b"} <= pictures(at).keys()
    assert header_of(canvas(at, "weights_a"))["either"]["picture"] == "matrix"
    assert not remembered(at)
    assert any("Lines need" in text.value for text in at.caption)
    (switch,) = (
        c.proto for c in at.get("bidi_component") if c.proto.id.endswith("-picture_switch")
    )
    assert json.loads(switch.json) | {"names": {}} == {
        "script": "choices.picture",
        "names": {},
        "chosen": "matrix",
        "disabled": True,
    }
