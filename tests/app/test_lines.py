"""Matrix or lines, chosen in the address: each line matches an independent GPT-2."""

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
from tests.app.pages import canvas, check_line_data, header_of, heatmaps, open_page, pictures
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


def lines_of(at: AppTest, folder: Path, **choice: str | None) -> dict[str, list[dict[str, Any]]]:
    """The lines that the browser draws after a choice there, by picture."""
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
    """A picture's lines as matrices, NaN where there is no line."""
    results = []
    for source in data["sources"]:
        matrix = np.full((len(data["queries"]), len(data["keys"])), np.nan)
        matrix[source["q"], source["k"]] = source["v"]
        assert np.isfinite(matrix).sum() == len(source["v"])
        results.append(matrix)
    return results


def single_matrix(data: dict[str, Any]) -> np.ndarray:
    (only,) = matrices(data)
    return only


def stored_lines(at: AppTest) -> list[Lines]:
    """The pictures of lines that the server has stored."""
    shown: output.PageOutputs = at.session_state["_shown"]
    return [picture for picture in shown.pictures.values() if isinstance(picture, Lines)]


def check_weights(drawn: np.ndarray, expected: np.ndarray) -> None:
    """Lines have the expected weights; weights without a line are below the threshold."""
    has_line = np.isfinite(drawn)
    assert_allclose(drawn[has_line], expected[has_line], **TOLERANCE)
    assert (expected[~has_line] < 0.01 + 2e-3).all()


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
def test_browser_lines_match_the_servers(page: str, chosen: dict[str, str], tmp_path: Path) -> None:
    """This holds whether lines or a matrix were sent, and in the order of the page."""
    at = open_page(page, text=TEXT, picture="lines", **chosen)
    stored, result = stored_lines(at), lines_of(at, tmp_path)
    shown: output.PageOutputs = at.session_state["_shown"]
    names = {picture.what for picture in stored}
    assert names == {name for name in shown.pictures if ", as lines" in name} != set()
    assert names <= shown.tables.keys()
    if page in PAGES:
        assert header_of(canvas(at, PAGES[page]))["either"]["picture"] == "lines"
    for picture in stored:
        assert {"query", "key", "value"} < set(picture.table().columns)
        assert len(picture.table())
    all_lines = [lines for several in result.values() for lines in several]
    of_lines = {name for name in pictures(at) if name.rstrip("_0123") in result}
    messages = [alt for name, alt in pictures(at).items() if name in of_lines]
    for lines, picture, alt in zip(all_lines, stored, messages, strict=True):
        assert alt == lines["alt"]
        assert alt.startswith(f"{picture.what}. ")
        assert f"{lines['shows']}, as lines".endswith(picture.what)
        check_line_data(lines, picture)
    for lines in all_lines:
        del lines["alt"]
    if page == "find":
        return  # small matrices of the probe are pooled, so lines come from the server
    other = open_page(page, text=TEXT, **chosen)
    assert not stored_lines(other)
    assert shown.pictures.keys() - names < other.session_state["_shown"].pictures.keys()
    matrix = lines_of(other, tmp_path)
    for lines in (lines for several in matrix.values() for lines in several):
        assert re.fullmatch(r".*, as lines[.] All its numbers are in the menu.*", lines.pop("alt"))
    assert matrix == result


#: The part that was sent, the part chosen next, and its name.
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
def test_lines_of_a_part_chosen_in_the_browser(
    page: str, part: tuple[dict[str, str], str | None, str], tmp_path: Path
) -> None:
    before, now, words = part
    result = lines_of(open_page(page, text=TEXT, query="1", **before), tmp_path, zoom=now)
    then = {} if now is None else {"zoom": now}
    expected = lines_of(open_page(page, text=TEXT, query="1", **then), tmp_path)
    assert result.keys() == expected.keys()
    for key, several in result.items():
        for lines, other in zip(several, expected[key], strict=True):
            assert lines.pop("alt").endswith(f", as lines, {words}.")
            del other["alt"], lines["shows"], other["shows"]
            assert lines == other


def test_two_sentences_side_by_side(tmp_path: Path) -> None:
    chosen = {"layer": "2", "head": "3"}
    at = open_page("side_by_side?differs=text", text=TEXT, text2=SECOND, query="1", **chosen)
    result = lines_of(at, tmp_path)
    (a,), (b,) = result["weights_a"], result["weights_b"]
    check_weights(single_matrix(a), weights(TEXT)[2][3])
    check_weights(single_matrix(b), weights(SECOND)[2][3])
    assert [a["chosen"], b["chosen"]] == [1, 6]  # both tokens are crane
    assert b["queries"][6] == [6, "·crane"]
    assert [a["title"], b["title"]] == [
        "A: First sentence · layer 2, head 3",
        "B: Second sentence · layer 2, head 3",
    ]


def test_lines_of_layers_are_named(tmp_path: Path) -> None:
    at = open_page("side_by_side", text=TEXT, layers="0,1,3", head="5")
    (together,) = lines_of(at, tmp_path)["layers_chart"]
    assert [source["name"] for source in together["sources"]] == ["Layer 0", "Layer 1", "Layer 3"]
    for result, layer in zip(matrices(together), (0, 1, 3), strict=True):
        check_weights(result, weights(TEXT)[layer][5])
    assert len(set(together["colors"])) == 3
    assert not together["title"]


def test_token_hidden_by_an_edit_has_no_line(tmp_path: Path) -> None:
    at = open_page("what_if", text=TEXT, edits="forbid:3:0", layer="0", head="2")
    expected = weights(TEXT)[0][2]
    before, changed = map(single_matrix, lines_of(at, tmp_path)["both_sides"])
    check_weights(before, expected)
    assert np.isnan(changed[3, 0])
    assert expected[3, 0] > 0.01
    rest = (
        expected[3, 1:] / expected[3, 1:].sum()
    )  # layer 0 has the same input: only the row is renormalized
    check_weights(changed[3, 1:], rest)
    check_weights(changed[:3], expected[:3])


def test_no_token_is_lit_by_default(tmp_path: Path) -> None:
    chosen = {"text": TEXT, "layer": "1", "head": "2"}
    (result,) = lines_of(open_page("head", **chosen), tmp_path)["stage_weights"]
    check_weights(single_matrix(result), weights(TEXT)[1][2])
    assert result["chosen"] == -1
    (result,) = lines_of(open_page("head", query="2", **chosen), tmp_path)["stage_weights"]
    assert result["chosen"] == 2


def test_lines_of_the_best_heads_and_the_chosen_one(tmp_path: Path) -> None:
    at = open_page("find", text=TEXT, find="head", layer="1", head="2", query="2")
    run, result = weights(TEXT), lines_of(at, tmp_path)
    check_weights(single_matrix(result["chosen_head"][0]), run[1][2])
    ranked = at.dataframe[0].value
    for n, lines in enumerate(result["best_heads"]):
        layer, head = int(ranked["layer"][n]), int(ranked["head"][n])
        check_weights(single_matrix(lines), run[layer][head])
        assert lines["title"].startswith(f"Layer {layer} · Head {head}: ")
        assert lines["chosen"] == 2
    assert len(result["best_heads"]) == 4


def test_textbook_draws_a_head_as_matrix_and_lines(tmp_path: Path) -> None:
    chosen = {"chapter": "heads", "text": TEXT, "layer": "1", "head": "2", "query": "2"}
    expected = weights(TEXT)[1][2]
    at = open_page("textbook", **chosen)
    assert_allclose(heatmaps(at, "real_head")["weights"], expected, **TOLERANCE)
    check_weights(single_matrix(lines_of(at, tmp_path)["real_head"][0]), expected)


def test_lines_on_the_probe_have_no_chosen_token(tmp_path: Path) -> None:
    """Its 100 tokens are pooled in small matrices, but all of them have lines."""
    small = heatmaps(open_page("find", text=TEXT), "best_heads").values()
    assert {matrix.shape for matrix in small} == {(64, 64)}
    at = open_page("find", text=TEXT, query="2", picture="lines")
    ranked = at.dataframe[0].value
    probe = [int(n) for n in np.random.default_rng(0).choice(5120, 50, replace=False)] * 2
    run, result = reference(BUNDLED, probe, True)["weights"], lines_of(at, tmp_path)["best_heads"]
    assert len(heatmaps(at, "best_heads")) == len(result) == 4
    for n, lines in enumerate(result):
        layer, head = int(ranked["layer"][n]), int(ranked["head"][n])
        check_weights(single_matrix(lines), run[layer][head])
        assert lines["chosen"] == -1
        assert lines["quantity"] == "attention weight"
    assert "Sentence of" not in pictures(open_page("find", picture="lines"))["best_heads"]


def test_sentence_too_long_for_lines_is_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt2viz.app.view.GRID", 6)
    at = open_page("side_by_side?differs=text", text=TEXT, text2=SECOND, picture="lines")
    assert {"weights_a", "weights_b"} <= pictures(at).keys()
    assert header_of(canvas(at, "weights_a"))["either"]["picture"] == "matrix"
    assert not stored_lines(at)
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
