"""Frames on the Textbook's pages: what the browser gets is computed, for every edit and address."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.pictures.frames import Still
from gpt2viz.textbook import steps
from tests.app.pages import open_chapter, open_page, sent
from tests.bundled import N_LAYER
from tests.numpy_gpt2 import reference, softmax


def texts(frame: Any, name: str) -> list[list[str]]:
    """What stands in the cells of a matrix of a frame, row by row."""
    cells = {mark["key"]: mark["text"] for mark in frame["marks"]}
    return [[cells[f"{name} {row} {column}"] for column in range(4)] for row in range(4)]


def kept(at: AppTest, name: str) -> Still:
    """The frame that Save offers under a name."""
    still = at.session_state["_shown"].pictures[name]
    assert isinstance(still, Still)
    return still


def numbers(frame: Any, name: str) -> np.ndarray:
    plain = [
        [one.replace("−", "-").replace("∞", "inf") for one in row] for row in texts(frame, name)
    ]
    return np.array(plain, float)


@pytest.mark.parametrize("edit", [(), (3, -4, 5, 6, 0, 0, 0, 0, -50, 100, 2, 1, 1, 2, 3, 4)])
def test_the_mask_closes_over_the_tables_scores(edit: tuple[float, ...]) -> None:
    asked = {"mask_scores": ",".join(map(str, edit))} if edit else {}
    at = open_page("textbook", chapter="mask", mask_step="3", mask_on="false", **asked)
    data = sent(at, "mask_step_player")
    scores = np.reshape(edit or steps.PRINTED_SCALED, (4, 4)).astype(float)
    assert data["at"] == 3
    assert len(data["frames"]) == 5
    saved = kept(at, "Scores and weights, while the mask closes row by row, step 4 of 5")
    shown = np.where(np.tri(4, dtype=bool) | (np.arange(4) == 3)[:, None], scores, -np.inf)
    assert_allclose(saved.matrices[0].values, shown, atol=1e-5)
    assert_allclose(saved.matrices[1].values, softmax(shown), atol=1e-6)
    assert len(saved.table()) == 2 * 16
    for n, frame in enumerate(data["frames"]):
        closed = np.where((np.arange(4) < n)[:, None] & ~np.tri(4, dtype=bool), -np.inf, scores)
        assert_allclose(numbers(frame, "scores"), closed, atol=0.0051)
        assert_allclose(numbers(frame, "weights"), softmax(closed), atol=0.0051)
        if 0 < n < 4:
            before = np.where(
                (np.arange(4) < n - 1)[:, None] & ~np.tri(4, dtype=bool), -np.inf, scores
            )
            rows = [softmax(one)[n - 1] for one in (before, closed)]
            told = re.findall(r"weights (.*) become (.*)\.", frame["caption"])[0]
            for said, row in zip(told, rows, strict=True):
                assert_allclose([float(x) for x in said.split(", ")], row, atol=0.0051)


@pytest.mark.parametrize(
    ("T", "C", "nh"), [("6", "768", "12"), ("1", "12", "1"), ("100", "1280", "20")]
)
def test_heads_are_split_where_they_can_be(T: str, C: str, nh: str) -> None:
    at = open_page("textbook", chapter="heads", way_T=T, way_C=C, way_nh=nh, way_step="2")
    data, hs = sent(at, "way_step_player"), int(C) // int(nh)
    shapes = [re.findall(r"\([\d, ]+\)", frame["caption"])[0] for frame in data["frames"]]
    row, cut, apart = f"(2, {T}, {C})", f"(2, {T}, {nh}, {hs})", f"(2, {nh}, {T}, {hs})"
    assert shapes == [row, cut, apart, cut, row]
    blocks = [m for m in data["frames"][2]["marks"] if m["fill"]]
    assert len(blocks) == min(int(T), 4) * int(nh)
    what = f"{C} channels of {min(int(T), 4)} tokens, split into {nh} heads and merged again"
    saved = kept(at, f"{what}, step 3 of 5")
    assert saved.frame.caption == data["frames"][2]["caption"]
    assert [one.key for one in saved.frame.marks] == [m["key"] for m in data["frames"][2]["marks"]]
    assert saved.table().empty  # its blocks are places, no numbers


def test_heads_that_cannot_share_have_no_frames() -> None:
    at = open_page("textbook", chapter="heads", way_C="768", way_nh="7")
    with pytest.raises(AssertionError, match="0 pictures"):
        sent(at, "way_step_player")


PARTS = ("attention", "the MLP")


def way(at: AppTest) -> tuple[list[list[str]], list[str]]:
    """The numbers of each frame, and its caption."""
    frames = sent(at, "stream_step_player")["frames"]
    keys = ("added number", "length number", "turned number")
    marks = [{mark["key"]: mark["text"] for mark in frame["marks"]} for frame in frames]
    numbers = [[one.get(key, "") for key in keys] for one in marks]
    return numbers, [frame["caption"] for frame in frames]


@pytest.mark.parametrize(
    ("text", "query", "causal"), [("A crane ate fish", "1", "true"), ("A", None, "false")]
)
def test_the_stream_is_that_of_the_readers_sentence(
    text: str, query: str | None, causal: str
) -> None:
    chosen = {} if query is None else {"query": query}
    at = open_page(
        "textbook", chapter="residual", text=text, causal=causal, stream_step="2", **chosen
    )
    found, captions = way(at)
    ids = gpt2viz.load_model().tokenizer.encode(text)
    out, place = reference(BUNDLED, ids, causal=causal == "true"), int(query or len(ids) - 1)
    streams = [out["embedding"][place]]
    for n in range(N_LAYER):
        streams += [out["residual_mid"][n][place], out["residual_out"][n][place]]
    assert len(found) == 2 + 2 * N_LAYER
    for before, now, (added, length, turned) in zip(streams, streams[1:], found[2:], strict=False):
        size = np.linalg.norm(now)
        assert float(length) == pytest.approx(size, abs=0.06 if size > 9.9 else 0.006)
        gap = np.linalg.norm(now - before)
        assert float(added) == pytest.approx(gap, abs=0.06 if gap > 9.9 else 0.006)
        cosine = now @ before / size / np.linalg.norm(before)
        assert float(turned.replace("−", "-")) == pytest.approx(cosine, abs=0.006)
    label = at.session_state["_shown"] and gpt2viz.trace(gpt2viz.load_model(), text).labels[place]
    assert all(caption.startswith(f"“{label}”: ") for caption in captions)
    assert captions[0].endswith(f"Nearest row: “{label}”, cosine 1.00.")
    assert found[0][2] == ""
    name = f"A token's way through the residual stream, step 3 of {len(found)}"
    lengths, cosines = kept(at, name).series
    after = [np.linalg.norm(one) for one in (streams[1] - streams[0], streams[1])]
    assert_allclose(np.array(lengths.x, float), after, rtol=1e-4)
    assert (lengths.y, cosines.y[0]) == (("added", "stream"), "before")
    turned = streams[1] @ streams[0] / np.linalg.norm(streams[0]) / np.linalg.norm(streams[1])
    assert cosines.x[0] == pytest.approx(turned, abs=1e-5)
    parts = ["its position", *(f"layer {n}, {part}" for n in range(N_LAYER) for part in PARTS)]
    for caption, part, (added, length, turned) in zip(captions[1:], parts, found[1:], strict=True):
        told = f"{part} adds a vector of length {added}. The stream is now {length} long; cosine "
        assert f"{told}to before {turned}." in caption


def test_a_step_that_is_not_there_is_told() -> None:
    at = open_chapter("mask", mask_step="9")
    assert any("mask_step: 9 can't be shown here" in warning.value for warning in at.warning)
    assert sent(at, "mask_step_player")["at"] == 0
