"""What the browser makes of a part of the text by itself is what the server draws of it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpt2viz
from gpt2viz.app.views.zoom import Window
from gpt2viz.pictures.canvas import Shown, header, packed
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import crop, pool_panel
from tests.app.pages import open_page, said, unpacked
from tests.js.test_scripts import HERE, run

TEXT = "The crane ate the unforgettable fish, and <b>the</b> extraordinary crane slept."
T = len(gpt2viz.load_model().tokenizer.encode(TEXT))
#: The whole, the beginning, the end, at most eight tokens, one, and a part of masked cells alone.
PARTS = ("", "0,11,0,10", f"{T - 9},{T},3,{T}", "6,11,2,9", "7,8,0,12", f"2,4,8,{T}")


def cut(message: bytes, parts: Sequence[str | None], folder: Path) -> list[dict[str, Any]]:
    """What the browser makes of a message for these parts; as it is for None."""
    (folder / "message").write_bytes(message)
    made = run(HERE / "cut_again.js", folder / "message", json.dumps(parts))
    found: list[dict[str, Any]] = json.loads(made.stdout or "[]")
    assert found, made.stderr
    return found


def messages(page: str, **chosen: str) -> dict[str, bytes]:
    """By its key, what is sent of every picture on a page whose parts the browser can draw."""
    at = open_page(page, text=TEXT, layer="1", head="4", query="5", key="3", **chosen)
    sent = [part.proto for part in at.get("bidi_component") if part.proto.bytes]
    return {one.id: one.bytes for one in sent if {"panels", "zooms"} <= said(one.bytes).keys()}


def agree(drawn: Mapping[str, bytes], folder: Path) -> None:
    """Of whichever part the server drew, the browser makes what it draws of any other."""
    (wanted,) = zip(*(cut(message, [None], folder) for message in drawn.values()), strict=True)
    for part, message in drawn.items():
        for other, found, right in zip(drawn, cut(message, [*drawn], folder), wanted, strict=True):
            for name in right:
                assert found[name] == right[name], (part, other, name)
            assert found.keys() == right.keys()


@pytest.mark.parametrize(
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
        ("what_if", 2, {"edits": "forbid:5,2"}),
    ],
)
def test_the_browser_draws_of_any_part_what_the_server_draws(
    page: str, count: int, chosen: dict[str, str], tmp_path: Path
) -> None:
    by_part = {part: messages(page, **chosen, **({"zoom": part} if part else {})) for part in PARTS}
    assert {len(sent) for sent in by_part.values()} == {count}
    for key in by_part[""]:
        agree({part: sent[key] for part, sent in by_part.items()}, tmp_path)


def odd(part: Window) -> bytes:
    """Two matrices with numbers of every kind, as they are sent."""
    random = np.random.default_rng(0)
    values = random.normal(scale=4e-3, size=(2, 12, 12)).astype(np.float32)
    values[0, 4, 4], values[0, 9, 2], values[1, 2, 3] = np.nan, np.inf, -np.inf
    masked = np.triu(np.ones((12, 12), bool), 2)
    names = [*"abc", "3", "a word of many letters", *"efghijk"]
    rows, columns = Axis("query", names), Axis("key", names)
    more: dict[str, Any] = {"masked": masked, "masked_text": "later", "least": 0.01}
    panels = [
        part.fit(Panel(f"{n}", one, rows, columns, str(n), masked_name=f"masked {n}", **more))
        for n, one in enumerate(values)
    ]
    picture = Heatmaps("odd", panels, "signed", n_columns=2, row=4, column=3)
    return packed(header(picture, LIGHT, part.shown), panels)


def test_numbers_of_every_kind_are_cut_as_they_are(tmp_path: Path) -> None:
    every = range(12)
    few, masked = (range(2, 5), range(1, 6)), (range(1), range(6, 12))
    parts = {"": (every, every), "2,5,1,6": few, "0,1,6,12": masked}
    agree({name: odd(Window(*part, 12)) for name, part in parts.items()}, tmp_path)


def matrix(n: int) -> Panel:
    names = [f"token {place}" for place in range(n)]
    values = np.random.default_rng(n).random((n, n), np.float32)
    return Panel("one", values, Axis("query", names), Axis("key", names))


def test_a_part_knows_what_it_was_cut_from_and_is_kept_without() -> None:
    whole = matrix(9)
    part = crop(whole, range(2, 5), range(3))
    assert part.whole is whole
    assert crop(part, range(3, 4), range(2)).whole is whole
    assert pool_panel(part, 2).whole is None
    kept = pickle.loads(pickle.dumps(part))  # noqa: S301 (packed here)
    assert kept.whole is None
    assert part.whole is whole
    assert "token 8" not in repr(part)
    assert len(pickle.dumps(part)) < len(pickle.dumps(whole))


@pytest.mark.parametrize("n", [9, 300])
def test_what_is_not_dragged_in_the_browser_is_sent_as_it_was(n: int) -> None:
    window = Window(range(2, 5), range(3), n)
    part = window.fit(matrix(n))
    before = packed(header(Heatmaps("one", [part]), LIGHT), [part])
    assert "zooms" not in said(before)
    if n == 300:  # more than a picture has room for
        assert window.shown is None
        return
    sent = packed(header(Heatmaps("one", [part]), LIGHT, window.shown), [part])
    told, values, masked = unpacked(sent)
    assert {name: told[name] for name in said(before)} == said(before)
    assert np.array_equal([values, masked], unpacked(before)[1:])


def test_blocks_of_cells_are_not_cut_in_the_browser() -> None:
    pooled = pool_panel(matrix(9), 4)
    assert "zooms" not in header(Heatmaps("one", [pooled]), LIGHT, Shown((), 9))
    part = pool_panel(crop(matrix(9), range(8), None), 4)
    assert "zooms" not in header(Heatmaps("one", [part]), LIGHT, Shown((0, 8, 0, 9), 9))
