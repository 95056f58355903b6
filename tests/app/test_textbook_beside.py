"""Sections of the chapters that set two ways side by side: what they draw and say, in NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.labels import label
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import express_lane, steps, values
from tests.app.pages import figure, heatmaps, open_page, plain
from tests.numpy_gpt2 import read
from tests.textbook.oracle import softmax


def said(at: AppTest) -> str:
    return plain("\n".join(block.value for block in [*at.markdown, *at.caption]))


def spelled(table: np.ndarray) -> str:
    return ",".join(map(str, table.ravel()))


def vocabulary() -> tuple[np.ndarray, list[str]]:
    """The bundled model's table, each row of length 1, and what its tokens are called."""
    _, weights = read(BUNDLED)
    table = weights["wte.weight"].astype(np.float64)
    tokenizer = gpt2viz.load_model().tokenizer
    return table, [label(tokenizer.token_bytes(n)) for n in range(len(table))]


def near(table: np.ndarray, vector: np.ndarray, left_out: list[int]) -> list[int]:
    cosine = table @ vector / np.linalg.norm(table, axis=1) / np.linalg.norm(vector)
    return [n for n in np.argsort(-cosine).tolist() if n not in left_out]


@pytest.mark.parametrize("words", ["king man woman queen", "boy girl mother father"])
def test_a_sum_of_words_is_told_as_it_comes_out(words: str) -> None:
    table, names = vocabulary()
    a, b, c, hoped = (names.index(f"·{word}") for word in words.split())
    at = open_page("textbook", chapter="tokens", plane_sum=words)
    total = table[a] - table[b] + table[c]
    all_near, others = near(table, total, []), near(table, total, [a, b, c])
    alone = near(table, table[a], [a, b, c])
    text = said(at)
    places = others.index(hoped) + 1, alone.index(hoped) + 1
    assert f"is at place **{places[0]:,}** of the sum's neighbours" in text
    assert f"alone it is at place {places[1]:,}." in text
    moved = {-1: "moved it up the list", 0: "did not change its place", 1: "moved it down the list"}
    assert f"So the sum {moved[int(np.sign(places[0] - places[1]))]}." in text
    of_the_three = "one of the three words themselves" in text
    assert of_the_three == (all_near[0] in (a, b, c))
    rows = at.session_state["_shown"].tables["Nearest neighbours of the sum"]
    listed = [re.findall(r"(\S+) -?\d\.\d\d", row) for row in rows["with the cosine"]]
    assert listed == [[names[n] for n in found[:5]] for found in (all_near, others, alone)]


def test_words_lie_where_the_model_has_them() -> None:
    table, names = vocabulary()
    words = ["cat", "dog", "sea"]
    at = open_page("textbook", chapter="tokens", plane_words="cat, dog unbelievable sea cat")
    assert "left out: unbelievable" in said(at)
    drawn = at.session_state["_shown"].pictures["Words as points of a plane"]
    assert drawn.names == (*words, "king − man + woman")
    assert drawn.made == (3,)
    x = table[[names.index(f"·{word}") for word in words]]
    points = np.stack([drawn.x, drawn.y], axis=1)
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)  # three points lie in one plane
    assert_allclose(np.linalg.norm(points[:3, None] - points[None, :3], axis=2), apart, rtol=1e-3)
    total = table[[names.index(f"·{word}") for word in ("king", "man", "woman")]]
    total = total[0] - total[1] + total[2]
    sides = np.linalg.lstsq((x[1:] - x[0]).T, total - x.mean(axis=0), rcond=None)[0]
    inside = sides @ (points[1:3] - points[0])
    assert_allclose(points[3], inside, atol=1e-3)  # the sum's shadow on that plane


@pytest.mark.parametrize("words", ["king", "unbelievable \U0001f469 <b> $x$ [l](u)"])
def test_too_few_words_are_asked_for_more(words: str) -> None:
    at = open_page("textbook", chapter="tokens", plane_words=words)
    assert "Type two words or more" in said(at).replace("**", "")
    at = open_page("textbook", chapter="tokens", plane_sum=words)
    assert "Type" not in said(at) or "four different words" in said(at)
    assert len(at.session_state["_shown"].pictures["Words as points of a plane"].names) == 10


def test_vectors_that_are_not_finite_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.full((5120, 256), torch.nan)
    monkeypatch.setattr("gpt2viz.textbook.word_plane.table_of", lambda _: table)
    assert "numbers that aren't finite" in said(open_page("textbook", chapter="tokens"))


def test_edited_values_are_handed_over() -> None:
    x, w_v = np.array(values.X), np.array(values.HANDS_OVER)
    x[1, 3], w_v[2] = -2, [0.5, 0, 0, -1, 0]
    at = open_page("textbook", chapter="by-hand", values_x=spelled(x), values_wv=spelled(w_v))
    scores = (x @ np.array(values.LOOKS_FOR).T) @ (x @ np.array(values.FOUND_BY).T).T
    weights = softmax(scores / np.sqrt(2))
    for key, expected in {
        "values_weights": weights,
        "values_itself": weights @ x,
        "values_chosen": weights @ x @ w_v.T,
    }.items():
        (drawn,) = heatmaps(figure(at, key)).values()
        assert_allclose(drawn, expected, atol=1e-5)
    assert "The weights are the same both times: largest difference **none**" in said(at)


def test_both_masks_leave_the_same_scores() -> None:
    scores = np.arange(16).reshape(4, 4) / 4
    at = open_page("textbook", chapter="mask", mask_scores=spelled(scores))
    drawn = heatmaps(figure(at, "masks"))
    for name in ("scaled scores + M", "masked_fill"):
        found = np.asarray(drawn[name], float)
        assert_allclose(found[np.tri(4, dtype=bool)], scores[np.tri(4, dtype=bool)], atol=1e-6)
    assert "two ways' weights: **none**" in said(at)


def test_three_blocks_are_told_of_by_what_is_0_inside() -> None:
    at = open_page("textbook", chapter="mlp", blocks_seed="3")
    rows = at.session_state["_shown"].tables["Inside three blocks"]
    assert rows["block"].tolist() == ["GELU", "ReLU", "SwiGLU"]
    assert rows["channels inside"].tolist() == [12, 12, 8]
    share = rows["exactly 0 inside"].tolist()
    assert share[::2] == ["0%", "0%"]
    assert f"ReLU has shut **{share[1]}** of the channels" in said(at)
    assert "each has **72 parameters**" in said(at).replace("\n", " ")
    assert rows["smallest inside"][1] == 0


@pytest.mark.parametrize("depth", [2, 48])
def test_the_express_lane_is_drawn_in_powers_of_ten(depth: int) -> None:
    at = open_page("textbook", chapter="residual", lane_depth=str(depth))
    name = "Gradient at each layer, with and without the residual, as powers of ten"
    curves = {line.name: line.y for line in at.session_state["_shown"].pictures[name].curves}
    for name, residual in (("x + f(x)", True), ("f(x)", False)):
        sizes = np.array(express_lane.gradients(depth, residual))
        assert_allclose(10 ** np.array(curves[name]), sizes, rtol=1e-4)
    digits, exponent = f"{sizes[0]:.1e}".split("e")
    raised = "⁻" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(n)] for n in str(-int(exponent)))
    assert f"Without it, **{digits} · 10{raised}** times" in said(at)


@pytest.mark.parametrize("on", [True, False])
def test_rows_of_dropped_weights_sum_to_what_is_said(on: bool) -> None:
    at = open_page("textbook", chapter="mlp", weights_p="0.5", weights_on=str(on).lower())
    found = np.array(
        [np.asarray(m, float) for m in heatmaps(figure(at, "variants_dropped")).values()]
    )
    sums = np.nansum(found, axis=2)
    assert f"between **{sums.min():.2f}** and **{sums.max():.2f}**" in said(at).replace("\n", " ")
    assert (sums.max() > 1.001) == on


def test_states_follow_the_edited_words() -> None:
    x = np.array(steps.SENTENCE_X)
    x[0] = [3, -1]
    at = open_page("textbook", chapter="rnn", rnn_x=spelled(x))
    state, expected = np.zeros(2), []
    for word in x:
        state = np.tanh(word + np.array([[0.5, -0.5], [0.5, 0.5]]) @ state)
        expected.append(state)
    (drawn,) = heatmaps(figure(at, "rnn_states")).values()
    assert_allclose(drawn, expected, atol=1e-6)


def test_the_bytes_of_tables_are_those_of_their_numbers() -> None:
    at = open_page("textbook", chapter="flash", flash_T="64", flash_size="16")
    rows = at.session_state["_shown"].tables["Three ways to the same outputs"]
    found = rows["largest table of scores, in bytes"].tolist()
    assert found[:2] == [12 * 64 * 64 * 4, 12 * 64 * 16 * 4]
    assert np.isnan(found[2])
