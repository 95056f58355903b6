"""A long text: pooled by maximum, cell by cell in a part, by the server and the browser."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz import settings
from gpt2viz.app import address, parameters
from gpt2viz.app.clicks import Dragged
from gpt2viz.app.view import Window
from gpt2viz.app.views import zoom
from gpt2viz.pictures.canvas import Shown, encode, header
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import crop, pool_panel
from tests.app.cases import each
from tests.app.pages import (
    SHADE,
    canvas,
    chips,
    data_of,
    frames,
    header_of,
    heatmaps,
    matrices,
    notices,
    open_page,
    panels,
    unpack,
)
from tests.bundled import ids_of
from tests.checkpoints import write_checkpoint
from tests.js.test_scripts import HERE, run
from tests.notebook.test_show import blocks
from tests.numpy_gpt2 import Tolerance, reference

T = 512
TEXT = "x " * (T // 2)
TOLERANCE: Tolerance = {"rtol": 1e-3, "atol": 1e-5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with positions for a long text; its app name is "long"."""
    return write_checkpoint(tmp_path_factory.mktemp("models") / "long", n_positions=T, n_layer=2)


@pytest.fixture(scope="module")
def expected(folder: Path) -> Any:
    ids = gpt2viz.load_model(folder).tokenizer.encode(TEXT)
    assert len(ids) == T
    return reference(folder, ids, causal=True)


@pytest.fixture(autouse=True)
def _list_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))


def open_long(page: str, **more: str) -> AppTest:
    return open_page(page, model="long", text=TEXT, layer="1", head="2", **more)


def test_whole_text_is_pooled_by_maximum(expected: Any) -> None:
    at = open_long("attention")
    (large,), every = matrices(at, "one_head"), heatmaps(at, "all_heads")
    assert_allclose(large.values, blocks(expected["weights"][1][2], 256), **TOLERANCE)
    for head, weights in enumerate(expected["weights"][1]):
        assert_allclose(every[f"1.{head}"], blocks(weights, 40), atol=SHADE)
    assert_array_equal(large.masked, np.triu(np.ones((256, 256), bool), 1))
    assert "largest attention weight of this block" in large.panel["quantity"]
    assert "Drag over a picture" in " ".join(block.value for block in at.caption)
    assert data_of(at, "part_note")["part"] is None
    nbytes = [len(part.proto.bytes) for part in at.get("bidi_component") if part.proto.bytes]
    assert len(nbytes) == 2
    assert sum(nbytes) < 0.5e6


def test_part_is_shown_cell_by_cell(expected: Any) -> None:
    at = open_long("attention", zoom="300,340,290,350", query="310")
    (large,), every = matrices(at, "one_head"), heatmaps(at, "all_heads")
    part = np.s_[300:340, 290:350]
    assert_allclose(large.values, expected["weights"][1][2][part], **TOLERANCE)
    assert {len(shown) for shown in every.values()} == {40}, "the map is of the whole text"
    assert [name.split()[0] for name in large.grid["rows"]] == [str(n) for n in range(300, 340)]
    assert [name.split()[0] for name in large.grid["columns"]] == [str(n) for n in range(290, 350)]
    assert [row for row, *_ in frames(at, "one_head")] == [10]
    assert_array_equal(large.masked, np.arange(290, 350) > np.arange(300, 340)[:, None])
    message = data_of(at, "part_note")
    assert message["part"] == [300, 340, 290, 350]
    assert not message["here"], "the browser lacks the numbers of that many tokens"


@each(
    ("page", "chart", "panel", "key"),
    [
        ("head", "stage_scores", "scores", "scores"),
        ("head", "stage_weights", "weights", "weights"),
        ("side_by_side?differs=mask", "both_sides", "a", "weights"),
        ("what_if", "both_sides", "a", "weights"),
        ("side_by_side", "layers_chart", "2", "weights"),
    ],
)
def test_every_page_shows_the_part(
    expected: Any, page: str, chart: str, panel: str, key: str
) -> None:
    at = open_long(page, zoom="300,340,290,350", layers="0,1", causal="true")
    results = panels(at, chart)
    layer = expected[key][1][2][300:340, 290:350]
    assert any(z.shape == layer.shape and np.allclose(z, layer, **TOLERANCE) for z in results)
    assert panel in heatmaps(at, chart)


def test_channels_are_not_cut(expected: Any) -> None:
    at = open_long("head", zoom="300,340,290,350")
    q = heatmaps(at, "stage_q")["q"]
    assert_allclose(q, expected["q"][1][2][300:340], **TOLERANCE)


@each("part", ["400,600,400,600", "20,10,0,5", "a"])
def test_invalid_part_is_ignored(part: str) -> None:
    at = open_long("attention", zoom=part)
    assert heatmaps(at, "one_head")["weights"].shape == (256, 256)


@each("page", ["attention", "head", "side_by_side", "side_by_side?differs=mask", "what_if"])
def test_part_is_named_in_titles_and_pictures(page: str) -> None:
    text = "The cat sat on the mat and the cat sat"
    part = "queries 3 to 6, keys 2 to 5"
    view = {"layer": "1", "head": "2", "model": "stories"}
    at = open_page(page, text=text, zoom="3,7,2,6", **view)
    cut = at.session_state["_shown"].pictures
    shapes = {
        name: {panel.values.shape for panel in picture.matrices} for name, picture in cut.items()
    }
    of_it = [name for name, result in shapes.items() if result == {(4, 4)}]
    assert of_it
    for name in of_it:
        assert part in name
        titles = [panel.whole_title for panel in cut[name].matrices]
        assert titles
        assert all(title.endswith(part) for title in titles), titles
    for name in set(cut) - set(of_it):
        assert "queries" not in name
        assert ("tokens 3 to 6" in name) == ((4, 32) in shapes.get(name, ()))
    message = data_of(at, "part_note")
    assert (message["part"], message["end"], message["here"]) == ([3, 7, 2, 6], 10, True)
    start = "of 10 tokens. What the page says about a whole row or column"
    assert message["rest"].startswith(start)


def test_part_is_reset_for_another_text() -> None:
    at = open_page("attention", model="stories", text="The cat sat on the mat", zoom="2,5,1,4")
    assert heatmaps(at, "one_head")["weights"].shape == (3, 3)
    at.selectbox(key="show").select("norms").run()
    assert heatmaps(at, "one_head")["norms"].shape == (3, 3)
    at.text_input(key="text").set_value("The cat sat on the hat").run()
    assert heatmaps(at, "one_head")["norms"].shape == (6, 6)
    assert "zoom" not in at.query_params


def test_part_cut_by_the_browser_is_reset_too() -> None:
    at = open_page("attention", model="stories", text="The cat sat on the mat", zoom="2,5,1,4")
    at.query_params["zoom"] = "3,5,2,4"
    at.text_input(key="text").set_value("The cat sat on the hat").run()
    assert heatmaps(at, "one_head")["weights"].shape == (6, 6)
    assert "zoom" not in at.query_params
    assert not at.warning
    at.query_params |= {"zoom": "3,5,2,4", "text": "The cat sat on the mat"}  # as after Back
    assert heatmaps(at.run(), "one_head")["weights"].shape == (2, 2)
    at = open_page("attention", model="stories", text="The cat sat on the mat ")
    at.query_params["zoom"] = "3,5,2,4"
    at.button(key="bare_text").click().run()
    assert at.query_params["text"] == "The cat sat on the mat"
    assert "zoom" not in at.query_params


def test_drag_selects_cells_and_the_whole_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(address, "put", lambda *put: calls.append(put))
    names = tuple(str(n) for n in range(T))
    part = Window(range(300, 304), range(290, 296), T)
    whole = Panel("", np.zeros((T, T), np.float32), Axis("query", names), Axis("key", names))
    drag = part.drag(part.fit(whole)).choose
    drag(Dragged("weights", (2, 1), (1, 3)))  # from 1.2 to 1.4, which includes no cell's middle
    drag(Dragged("weights", (1, 2), (4, 3)))
    assert not calls
    drag(Dragged("weights", (1, 2), (3, 3)))
    zoom.show_whole()
    assert calls == [(parameters.ZOOM, (301, 303, 293, 294)), (parameters.ZOOM, ())]


def test_chips_of_a_long_text_start_at_the_chosen_token() -> None:
    at = open_long("attention", query="300")
    drawn = chips(at)
    assert (drawn["first"], len(drawn["labels"]), drawn["chosen"]) == (256, 128, 300)
    assert at.selectbox(key="from").value == 256

    at.selectbox(key="from").select(128).run()
    drawn = chips(at)
    assert (drawn["first"], len(drawn["labels"]), drawn["chosen"]) == (128, 128, 300)
    assert "300" in " ".join(caption.value for caption in at.caption)
    assert at.query_params["query"] == "300", "the choice stays"

    at.query_params["query"] = "130"
    at.run()
    assert chips(at)["chosen"] == 130
    assert frames(at, "one_head"), "its row is framed"


def test_lines_are_drawn_for_small_parts_only() -> None:
    whole = open_long("attention", picture="lines")
    assert "weights" in heatmaps(whole, "one_head")
    assert any("Lines need" in caption.value for caption in whole.caption)
    part = open_long("attention", picture="lines", zoom="100,160,40,120")
    assert not any("Lines need" in caption.value for caption in part.caption)
    (lines,) = (p for p in part.session_state["_shown"].pictures.values() if isinstance(p, Lines))
    assert lines.what == (
        "Attention weights, layer 1, head 2, queries 100 to 159, keys 40 to 119, as lines"
    )
    assert lines.panels[0].values.shape == (60, 80)
    assert header_of(canvas(part, "one_head"))["either"]["picture"] == "lines"


SENTENCE = "The crane ate the unforgettable fish, and <b>the</b> extraordinary crane slept."
N = len(ids_of(SENTENCE))
#: The whole, the start, the end, at most eight tokens, one, and a part with only masked cells.
PARTS = ("", "0,11,0,10", f"{N - 9},{N},3,{N}", "6,11,2,9", "7,8,0,12", f"2,4,8,{N}")


def canvases(page: str, **chosen: str) -> dict[str, bytes]:
    """The messages of a page's pictures whose parts the browser can draw, by component id."""
    here = {
        "model": "stories",
        "text": SENTENCE,
        "layer": "1",
        "head": "4",
        "query": "5",
        "key": "3",
    }
    at = open_page(page, **here | chosen)
    assert not notices(at)
    protos = [part.proto for part in at.get("bidi_component") if part.proto.bytes]
    return {c.id: c.bytes for c in protos if {"panels", "zooms"} <= header_of(c.bytes).keys()}


def check_cuts(drawn: Mapping[str, bytes], folder: Path) -> None:
    """From any part drawn by the server, the browser makes the server's drawing of any other."""
    files = [folder / str(n) for n in range(len(drawn))]
    for file, message in zip(files, drawn.values(), strict=True):
        file.write_bytes(message)
    process = run(HERE / "cut_again.js", json.dumps([*drawn]), *files)
    assert process.stdout, process.stderr
    by_message = json.loads(process.stdout)
    as_they_are = [as_it_is for as_it_is, *_ in by_message]
    for part, (_, *cuts) in zip(drawn, by_message, strict=True):
        for other, cut, right in zip(drawn, cuts, as_they_are, strict=True):
            for name in right:
                assert cut[name] == right[name], (part, other, name)
            assert cut.keys() == right.keys()


@each(
    ("page", "count", "chosen"),
    [
        ("attention", 1, {}),
        ("attention", 1, {"show": "norms"}),
        ("attention", 1, {"words": "true"}),
        ("head", 8, {}),
        ("head?see=weights", 1, {}),
        ("side_by_side?differs=layers", 2, {"layers": "0,1,3"}),
        ("side_by_side?differs=layers", 2, {"layers": "0,2", "words": "true"}),
        ("side_by_side?differs=mask", 3, {}),
        ("what_if", 2, {"edits": "forbid:5:2"}),
    ],
)
def test_browser_cuts_parts_like_the_server(
    page: str, count: int, chosen: dict[str, str], tmp_path: Path
) -> None:
    every = page == "attention" and not chosen
    parts = PARTS if every else ("", *PARTS[1 + count % 3 :: 2])  # alternately
    by_part = {part: canvases(page, **chosen, **({"zoom": part} if part else {})) for part in parts}
    assert {len(messages) for messages in by_part.values()} == {count}
    for key in by_part[""]:
        check_cuts({part: messages[key] for part, messages in by_part.items()}, tmp_path)


def odd_numbers(part: Window) -> bytes:
    """The message of two matrices with numbers of every kind."""
    random = np.random.default_rng(0)
    values = random.normal(scale=4e-3, size=(2, 12, 12)).astype(np.float32)
    values[0, 4, 4], values[0, 9, 2], values[1, 2, 3] = np.nan, np.inf, -np.inf
    masked = np.triu(np.ones((12, 12), bool), 2)
    names = [*"abc", "3", "a word of many letters", *"efghijk"]
    rows, columns = Axis("query", names), Axis("key", names)
    more: dict[str, Any] = {"masked": masked, "masked_text": "later", "least": 0.01}
    panels = [
        part.fit(Panel(f"{n}", cells, rows, columns, str(n), masked_name=f"masked {n}", **more))
        for n, cells in enumerate(values)
    ]
    picture = Heatmaps("odd", panels, "signed", n_columns=2, row=4, column=3)
    return encode(header(picture, LIGHT, part.shown), panels)


def test_numbers_of_every_kind_are_cut_unchanged(tmp_path: Path) -> None:
    every = range(12)
    few, masked = (range(2, 5), range(1, 6)), (range(1), range(6, 12))
    parts = {"": (every, every), "2,5,1,6": few, "0,1,6,12": masked}
    check_cuts({name: odd_numbers(Window(*part, 12)) for name, part in parts.items()}, tmp_path)


def matrix(n: int) -> Panel:
    names = [f"token {i}" for i in range(n)]
    values = np.random.default_rng(n).random((n, n), np.float32)
    return Panel("one", values, Axis("query", names), Axis("key", names))


def test_part_refers_to_its_whole_but_is_pickled_without() -> None:
    whole = matrix(9)
    part = crop(whole, range(2, 5), range(3))
    assert part.whole is whole
    assert crop(part, range(3, 4), range(2)).whole is whole
    assert pool_panel(part, 2).whole is None
    copy = pickle.loads(pickle.dumps(part))  # noqa: S301 (packed here)
    assert copy.whole is None
    assert part.whole is whole
    assert "token 8" not in repr(part)
    assert len(pickle.dumps(part)) < len(pickle.dumps(whole))


@each("n", [9, 300])
def test_message_without_dragging_is_unchanged(n: int) -> None:
    window = Window(range(2, 5), range(3), n)
    part = window.fit(matrix(n))
    before = encode(header(Heatmaps("one", [part]), LIGHT), [part])
    assert "zooms" not in header_of(before)
    if n == 300:  # more than fit a picture
        assert window.shown is None
        return
    data = encode(header(Heatmaps("one", [part]), LIGHT, window.shown), [part])
    message, values, masked = unpack(data)
    assert {name: message[name] for name in header_of(before)} == header_of(before)
    assert np.array_equal([values, masked], unpack(before)[1:])


def test_pooled_cells_are_not_cut_in_the_browser() -> None:
    pooled = pool_panel(matrix(9), 4)
    assert "zooms" not in header(Heatmaps("one", [pooled]), LIGHT, Shown((), 9))
    part = pool_panel(crop(matrix(9), range(8), None), 4)
    assert "zooms" not in header(Heatmaps("one", [part]), LIGHT, Shown((0, 8, 0, 9), 9))
