"""A chapter's pictures and text match NumPy after every kind of edit of its tables.

Formulas are recomputed as a reader would: only from numbers shown on the page and from the page's
tables; also with very small and large numbers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.app.course.written import format_for_field
from gpt2viz.labels import label
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.pictures.frames import Still
from gpt2viz.textbook import attention, embeddings, mlp
from gpt2viz.textbook.residual import LANES, lane_gradients, stops
from tests.app.chapters import (
    captions,
    chapter,
    check_numbers,
    formula,
    formulas,
    joined,
    matrix,
    numbers,
    open_chapter,
    text_of,
)
from tests.app.pages import data_of, heatmaps, open_page
from tests.bundled import N_LAYER, bundled_model
from tests.js.test_scripts import HERE, run
from tests.numpy_gpt2 import read, softmax
from tests.textbook.oracle import mixed_words, order_difference

LATER = ~np.tri(4, dtype=bool)
BIRD, MACHINE = (
    (attention.CRANE_KEYS[of], attention.CRANE_VALUES[of]) for of in ("bird", "machine")
)
Q = [0.7, 0.7]


@pytest.mark.parametrize(
    ("address", "q", "k", "v"),
    [
        ({}, Q, *BIRD),
        (
            {"crane": "machine", "crane_heat": "0.05", "crane_q": "0.12345,0.4567"},
            [0.12345, 0.4567],
            *MACHINE,
        ),
        (
            {"crane_heat": "5.0"},
            [-1.5, 0.25],
            [1, -2, 0.3, 0.4, -0.5, 0.6],
            [-1, 0, 2, -3, 0.5, 50],
        ),
        ({}, Q, [0.123, 0.4567, -0.98765, 0.5, 0.33333, 0.1], [99, -100, 50.5, 0.25, -33.3, 77]),
        ({}, Q, [12.5, -3.75, 9.125, 20, -7.5, 1], BIRD[1]),
        ({}, Q, [0.001, 0.0002, 0.0003, 0.0001, 0.002, 0.0015], [99, -100, 50.5, 0.25, -33.3, 77]),
        ({"crane_heat": "0.05"}, [0, 0], [100, -100, 100, 100, -100, 0], BIRD[1]),
    ],
)
def test_crane_matches_numpy(address: dict[str, str], q: Any, k: Any, v: Any) -> None:
    requested = dict(address)
    if "crane" not in address:
        requested |= {"crane_q": joined(q), "crane_k_bird": joined(k), "crane_v_bird": joined(v)}
    at = open_chapter("crane", **requested)
    q, k, v = (np.array(table, float) for table in (q, k, v))
    k, v, heat = k.reshape(3, 2), v.reshape(3, 2), float(address.get("crane_heat", 1))
    result, size = data_of(at, "crane_arrows"), q @ q
    weights = softmax(k @ q / heat)
    feet = np.outer(k @ q / size, q) if size else np.zeros((3, 2))
    assert_allclose(result["arrows"], [q, *k], atol=1e-12)
    assert_allclose(result["values"], v, atol=1e-12)
    assert_allclose(result["shadows"], feet, atol=1e-5)
    assert_allclose(result["scores"], k @ q, rtol=1e-6, atol=1e-6)
    assert_allclose(result["weights"], weights, atol=1e-6)
    assert_allclose(np.diff(result["ends"], axis=0), weights[:, None] * v, atol=1e-5)
    assert_allclose(heatmaps(at, "crane_weights")["weights of crane"][0], weights, atol=1e-6)
    after = heatmaps(at, "crane_vectors")["values, and the crane afterwards"][-1]
    assert_allclose(after, weights @ v, rtol=1e-5, atol=1e-5)
    terms = [line.partition(": }")[2] for line in formulas(at) if "crane and " in line]
    assert_allclose([numbers(line)[-1] for line in terms], k @ q, atol=1e-4)
    for line, key in zip(terms, k, strict=True):
        a, b, c, d, score = numbers(line.replace("(", "").replace(")", ""))
        assert_allclose([a, b, c, d], [q[0], key[0], q[1], key[1]], atol=1e-4)
        assert a * b + c * d == pytest.approx(score, abs=1e-4)
    scores = formula(at, r"q \cdot K^\top ")
    check_numbers(scores, k @ q)
    line = formula(at, r"\text{softmax} " if heat == 1 else rf"\text{{softmax}}(s / {heat:g}) ")
    check_numbers(line, softmax(numbers(scores) / heat))
    check_numbers(formula(at, r"\text{new vector} = \text{weights}\cdot V "), numbers(line) @ v)


def test_browsers_arrows_match_python_and_numpy(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    cases: list[dict[str, Any]] = []
    for T, size, heat in [(1, 1, 1), (3, 1, 0.05), (3, 100, 10), (4, 3, 0.5), (3, 0, 1)]:
        q, k, v = (random.uniform(-size, size, shape) for shape in ((1, 2), (T, 2), (T, 2)))
        cases.append({"arrows": np.vstack([q, k]), "values": v, "heat": heat})
    written: list[dict[str, Any]] = [
        {name: np.asarray(x).tolist() for name, x in case.items()} for case in cases
    ]
    (tmp_path / "points").write_text(json.dumps(written))
    answers = json.loads(run(HERE / "followed.js", tmp_path / "points").stdout)
    for case, result in zip(written, answers, strict=True):
        arrows, v = (np.array(case[name]) for name in ("arrows", "values"))
        q, keys = arrows[0], arrows[1:]
        requested = np.tile(q, (len(keys), 1))
        here = attention.attend(requested, keys, v, scaled=False, temperature=case["heat"])
        assert_allclose(result["scores"], here.scores[0], rtol=1e-5, atol=1e-4)
        assert_allclose(result["weights"], here.weights[0], rtol=1e-3, atol=1e-6)
        assert_allclose(result["shadows"], attention.shadows(q, keys), rtol=1e-4, atol=1e-5)
        ends = attention.tip_to_tail(here.weights[0], v)
        assert_allclose(result["ends"], ends, rtol=1e-3, atol=1e-4)
        assert [result[name] for name in ("arrows", "values")] == [case["arrows"], case["values"]]
        # An oracle that shares no code with either.
        assert_allclose(result["weights"], softmax(keys @ q / case["heat"]), atol=1e-12)


def test_reset_restores_the_texts_table() -> None:
    at, texts = open_chapter("crane", crane_q="5,0"), softmax(np.array([0.98, 0.7, 0.7]))
    (back,) = [button for button in at.button if button.key == "crane_q_reset"]
    back.click().run()
    assert "crane_q" not in at.query_params
    assert_allclose(heatmaps(at, "crane_weights")["weights of crane"][0], texts, atol=1e-6)


def test_edited_sentence_through_one_head_matches_numpy() -> None:
    x = np.array([[1, 2], [0.5, -1], [0, 0.25], [2, 0]])
    w_q, w_k = np.array([[1, 0.5], [0, 1]]), np.array([[0.3, 1], [-1, 0]])
    w_v = np.array([[0.5, 1], [-1, 3]])
    tables = {"hand_x": x, "hand_wq": w_q, "hand_wk": w_k, "hand_wv": w_v}
    at = open_chapter("by-hand", **{name: joined(table) for name, table in tables.items()})
    scores = (x @ w_q.T) @ (x @ w_k.T).T
    weights = softmax(scores / np.sqrt(2))
    assert_allclose(heatmaps(at, "hand_scores")["raw scores QKᵀ"], scores, atol=1e-5)
    scaled = heatmaps(at, "hand_scores")["scaled scores QKᵀ / √2"]
    assert_allclose(scaled, scores / np.sqrt(2), atol=1e-5)
    assert_allclose(heatmaps(at, "hand_weights")["weights"], weights, atol=1e-6)
    assert_allclose(heatmaps(at, "hand_output")["output"], weights @ (x @ w_v.T), atol=1e-6)


def test_objects_attend_to_actions_with_named_tables_only() -> None:
    x = np.array(attention.SENTENCE_X)
    scores = 4 * x[:, ::-1] @ x.T
    weights = heatmaps(open_chapter("by-hand"), "hand_weights")["weights"]
    assert_allclose(weights, softmax(scores / np.sqrt(2)), atol=1e-6)
    assert weights.argmax(axis=1)[1:3].tolist() == [2, 1]  # crane and ate attend to each other
    even = heatmaps(open_chapter("by-hand", hand_tables="random"), "hand_weights")["weights"]
    assert np.ptp(even) < 0.1


def test_masked_first_word_keeps_its_own_value() -> None:
    at = open_chapter("crane", crane_mask="true", crane_v_bird="3,-2,0.9,0.1,0.8,0.2")
    assert_allclose(heatmaps(at, "crane_weights")["weights of crane"][0], [1, 0, 0], atol=1e-7)
    check_numbers(formula(at, r"\text{new vector} = \text{weights}\cdot V "), [3, -2])
    assert "it sees only itself: its own value is the new vector." in text_of(at)


def test_edited_values_match_numpy() -> None:
    x, w_v = np.array(attention.VALUE_X), np.array(attention.VALUE_WV)
    x[1, 3], w_v[2] = -2, [0.5, 0, 0, -1, 0]
    at = open_chapter("by-hand", values_x=joined(x), values_wv=joined(w_v))
    scores = (x @ np.array(attention.VALUE_WQ).T) @ (x @ np.array(attention.VALUE_WK).T).T
    weights = softmax(scores / np.sqrt(2))
    for key, expected in {
        "values_weights": weights,
        "values_itself": weights @ x,
        "values_chosen": weights @ x @ w_v.T,
    }.items():
        assert_allclose(matrix(at, key), expected, atol=1e-5)
    assert "The weights are the same both times: largest difference **none**" in text_of(at)


@pytest.mark.parametrize(("query", "factor"), [(0, 7.77), (1, 1), (5, 0.01)])
def test_journey_matches_numpy(query: int, factor: float) -> None:
    x = (np.array(attention.JOURNEY_X) * factor).round(5)
    at = open_chapter("by-hand", journey_q=str(query), journey_x=joined(x))
    line = formula(at, r"\text{scores} ")
    check_numbers(line, x @ x[query])
    weights = formula(at, r"\text{weights} ")
    check_numbers(weights, softmax(numbers(line)))
    check_numbers(formula(at, r"\text{context vector} "), numbers(weights) @ x)


@pytest.mark.parametrize("hs", [32, 128])
def test_sharpness_is_a_mean_with_its_spread(hs: int) -> None:
    at = open_chapter("by-hand", hs=str(hs))
    scores = attention.random_scores(hs).double().numpy()
    weights = [-np.sort(-softmax(scores / divisor), axis=1) for divisor in (1, np.sqrt(hs))]
    assert_allclose(matrix(at, "sharpness"), [result.mean(axis=0) for result in weights], atol=1e-5)
    spreads = [attention.largest_weight(scores, float(by)) for by in (1, np.sqrt(hs))]
    messages = [f"**{s.mean:.2f}** ({s.low:.2f} to {s.high:.2f})" for s in spreads]
    assert f"Unscaled {messages[0]}, divided by √hs {messages[1]}" in text_of(at)
    assert f", {attention.SCALE_DRAWS} draws" in next(iter(heatmaps(at, "sharpness")))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("factor", [1, 3])
def test_masked_rows_match_numpy(causal: bool, factor: int) -> None:
    scores = (np.array(attention.PRINTED_SCALED) * factor + 0.00123 * (factor - 1)).round(6)
    at = open_chapter("mask", mask_on=str(causal).lower(), mask_scores=joined(scores))
    for n, word in enumerate(attention.SENTENCE):
        line = formula(at, rf"\text{{{word}: }} \text{{softmax}}")
        before, _, after = line.partition("])")
        row = numbers(before)
        closed = np.isneginf(row)
        assert closed.tolist() == [causal and key > n for key in range(4)]
        assert_allclose(row[~closed], scores[n][~closed], rtol=1e-7)
        check_numbers(after, softmax(row))
    masks = heatmaps(at, "masks")
    for name in ("scaled scores + M", "masked_fill"):
        assert_allclose(np.asarray(masks[name], float)[~LATER], scores[~LATER], atol=1e-6)
    assert "two ways' weights: **none**" in text_of(at)


def masked(scores: np.ndarray, n: int) -> np.ndarray:
    """The scores with the mask applied to the first ``n`` rows."""
    return np.where((np.arange(4) < n)[:, None] & LATER, -np.inf, scores)


@pytest.mark.parametrize("edit", [(), (3, -4, 5, 6, 0, 0, 0, 0, -50, 100, 2, 1, 1, 2, 3, 4)])
def test_mask_frames_match_numpy(edit: tuple[float, ...]) -> None:
    requested = {"mask_scores": joined(edit)} if edit else {}
    at = open_chapter("mask", mask_step="3", mask_on="false", **requested)
    data, scores = (
        data_of(at, "mask_step_player"),
        np.reshape(edit or attention.PRINTED_SCALED, (4, 4)),
    )
    assert data["at"] == 3
    assert len(data["frames"]) == 5
    saved = still(at, "Scores and weights, while the mask closes row by row, step 4 of 5")
    assert_allclose(saved.matrices[0].values, masked(scores, 3), atol=1e-5)
    assert_allclose(saved.matrices[1].values, softmax(masked(scores, 3)), atol=1e-6)
    assert len(saved.table()) == 2 * 16
    for n, frame in enumerate(data["frames"]):
        assert_allclose(cells(frame, "scores"), masked(scores, n), atol=0.0051)
        assert_allclose(cells(frame, "weights"), softmax(masked(scores, n)), atol=0.0051)
        if 0 < n < 4:
            message = re.findall(r"weights (.*) become (.*)\.", frame["caption"])[0]
            for texts, before in zip(message, (n - 1, n), strict=True):
                row = softmax(masked(scores, before))[n - 1]
                assert_allclose([float(x) for x in texts.split(", ")], row, atol=0.0051)


def cells(frame: Any, name: str) -> np.ndarray:
    """The numbers in the cells of a frame's matrix, (4, 4)."""
    marks = {mark["key"]: mark["text"] for mark in frame["marks"]}
    texts = [[marks[f"{name} {row} {column}"] for column in range(4)] for row in range(4)]
    plain = [[text.replace("−", "-").replace("∞", "inf") for text in row] for row in texts]
    return np.array(plain, float)


def still(at: Any, name: str) -> Still:
    """The frame offered by Save under a name."""
    still = at.session_state["_shown"].pictures[name]
    assert isinstance(still, Still)
    return still


@pytest.mark.parametrize(("sentence", "ends"), [("bird", "0.29, 0.71"), ("machine", "0.71, 0.29")])
def test_mixture_frames_end_at_the_context_vector(sentence: str, ends: str) -> None:
    frames = data_of(open_chapter("crane", crane=sentence), "mix_step_player")["frames"]
    captions = [frame["caption"] for frame in frames]
    assert len(captions) == 5
    assert f"now [{', '.join(ends.split(', ')[::-1])}]" in captions[3]
    assert f"now [{ends}]" in captions[4]


def test_merge_frames_end_in_the_words_tokens() -> None:
    text, tokenizer = "An unbelievable crane", bundled_model().tokenizer
    names = [tokenizer.token_bytes(n).decode() for n in tokenizer.encode(text)]
    at = open_chapter("bpe", text=text, query="3")
    assert names[3] in "unbelievable"
    data = data_of(at, "merge_step_player")
    pieces = [[mark["text"] for mark in frame["marks"]] for frame in data["frames"]]
    assert pieces[0] == list("·unbelievable")
    assert ["".join(step) for step in pieces] == ["·unbelievable"] * len(pieces)
    assert [len(step) for step in pieces] == list(range(len(pieces[0]), len(pieces[-1]) - 1, -1))
    known = [name.replace(" ", "·") for name in names]
    assert "|".join(pieces[-1]) in "|".join(known)
    for step, frame in zip(pieces[1:], data["frames"][1:], strict=True):
        left, right = re.split(r" \+ |: ", frame["caption"])[:2]
        assert left + right in step
    words, n_merges = text_of(at), len(tokenizer.merges)
    assert f"**{n_merges:,}** merges and **{tokenizer.n_vocab:,}** tokens" in words
    assert "Type one of your own" in text_of(open_chapter("bpe", text="", bos="true"))


def test_word_order_with_and_without_positions_and_mask() -> None:
    for on, causal in ((False, False), (False, True), (True, False), (True, True)):
        requested = {"mask_places": str(on).lower(), "order_mask": str(causal).lower()}
        at = open_page("textbook", chapter="mask", **requested)
        positions = np.array([[0.3, 0.0], [0.0, 0.3], [-0.3, 0.0]]) * on
        gap = order_difference(positions, causal)
        assert f"between the two sentences, rounded: **{gap:.4f}**" in text_of(at)
        for title, order in (("crane ate fish", [0, 1, 2]), ("fish ate crane", [2, 1, 0])):
            mixed = mixed_words(order, positions, causal)
            assert_allclose(heatmaps(at, "order")[title], mixed, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "on"), [("0.9,0.1,0.1,0.8,0.7,0.3", "true"), ("0.12345,0.005,1,2,3,4", "false")]
)
def test_written_position_sums_are_right(words: str, on: str) -> None:
    at = open_chapter("order", order_on=on, order_words=words)
    for name in ("first", "last"):
        first, other, rest = formula(at, rf"\text{{crane, {name}: }} ").split("]", 2)
        assert numbers(first).tolist() == [float(x) for x in words.split(",")[:2]]
        check_numbers(rest, numbers(first) + numbers(other))


@pytest.mark.parametrize(
    ("T", "C", "nh"), [("6", "768", "12"), ("1", "12", "1"), ("100", "1280", "20")]
)
def test_frames_of_splitting_heads(T: str, C: str, nh: str) -> None:
    at = open_chapter("heads", way_T=T, way_C=C, way_nh=nh, way_step="2")
    data, hs = data_of(at, "way_step_player"), int(C) // int(nh)
    shapes = [re.findall(r"\([\d, ]+\)", frame["caption"])[0] for frame in data["frames"]]
    row, cut, apart = f"(2, {T}, {C})", f"(2, {T}, {nh}, {hs})", f"(2, {nh}, {T}, {hs})"
    assert shapes == [row, cut, apart, cut, row]
    blocks = [m for m in data["frames"][2]["marks"] if m["fill"]]
    assert len(blocks) == min(int(T), 4) * int(nh)
    what = f"{C} channels of {min(int(T), 4)} tokens, split into {nh} heads and merged again"
    saved = still(at, f"{what}, step 3 of 5")
    assert saved.frame.caption == data["frames"][2]["caption"]
    assert [mark.key for mark in saved.frame.marks] == [
        m["key"] for m in data["frames"][2]["marks"]
    ]
    assert saved.table().empty  # its blocks have no numbers


@pytest.mark.parametrize(
    "edit",
    [
        {},
        {"lin_x": "0.123,-0.4567", "lin_w": joined([0.987, 0.654, -1, 0, 0, 2, 0, -2])},
        {"lin_x": "0.005,99.999", "lin_b": "0.004,0,1,2"},
    ],
)
def test_linear_layers_written_sum_is_right(edit: dict[str, str]) -> None:
    at = open_chapter("mlp", **edit)
    terms, sign, result = re.split(r" (=|\\approx) ", formula(at, r"\text{out}_0 = "))
    a, w, b, v, bias = numbers(terms)
    check_numbers(f"{sign} {result}", a * w + b * v + bias)
    x = np.array(edit.get("lin_x", joined(mlp.LINEAR_X)).split(","), float)
    assert [a, b] == x.tolist()


def test_text_on_blocks_and_dropout_matches_their_numbers() -> None:
    for on in (True, False):
        at = open_chapter("mlp", blocks_seed="3", weights_p="0.5", weights_on=str(on).lower())
        text = text_of(at).replace("\n", " ")
        results = [np.asarray(m, float) for m in heatmaps(at, "variants_dropped").values()]
        sums = np.nansum(results, axis=2)
        assert f"between **{sums.min():.2f}** and **{sums.max():.2f}**" in text
        assert (sums.max() > 1.001) == on
    rows = at.session_state["_shown"].tables["Inside three blocks"]
    assert rows["block"].tolist() == ["GELU", "ReLU", "SwiGLU"]
    assert rows["channels inside"].tolist() == [12, 12, 8]
    share = rows["exactly 0 inside"].tolist()
    assert share[::2] == ["0 %", "0 %"]
    assert f"ReLU has shut **{share[1]}** of the channels" in text
    assert "each has **72 parameters**" in text
    assert rows["smallest inside"][1] == 0


@pytest.mark.parametrize(
    "rows",
    [
        [0.3, 0, 0.5, 0.1, 1, 1, 1, 1, 0, 0, 0, 0],
        [0.001, 0.0011, 0.0009, 0.001, 1, 1, 1, 1, 0, 0, 0, 0],
        [100, -99.5, 3.25, 0.125, 50, -20, 3, 1, 0.001, 2, 3, 4],
        [2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0],
    ],
)
def test_layer_norm_formulas_match_numpy(rows: list[float]) -> None:
    at = open_chapter("residual", norm=joined(rows))
    x, gain, shift = np.array(rows, float).reshape(3, 4)
    first, second = formula(at, r"\mu ").split(r" \qquad \sigma^2 ")
    check_numbers(first, x.mean())
    check_numbers(second, x.var())
    centred = formula(at, r"x - \mu ")
    check_numbers(centred, x - numbers(first))
    normed = formula(at, r"\frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}} ")
    check_numbers(normed, numbers(centred) / np.sqrt(numbers(second) + 1e-5))
    check_numbers(formula(at, r"\cdot\,\gamma + \beta "), numbers(normed) * gain + shift)


@pytest.mark.parametrize("depth", [2, 48])
def test_gradient_curves_are_powers_of_ten(depth: int) -> None:
    at = open_chapter("residual", lane_depth=str(depth))
    name = "Gradient at each layer of four stacks, as powers of ten"
    curves = {line.name: line.y for line in at.session_state["_shown"].pictures[name].curves}
    for name in LANES:
        assert_allclose(10 ** np.array(curves[name]), lane_gradients(depth, name), rtol=1e-4)
    for words, name in (("before each part", "x + f(norm(x))"), ("at first", "x + f(x) / √L")):
        assert f"{words}, {lane_gradients(depth, name)[0]:.3g} times arrives" in text_of(at)
    digits, exponent = f"{lane_gradients(depth, 'f(x)')[0]:.1e}".split("e")
    raised = "⁻" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(n)] for n in str(-int(exponent)))
    assert f"Without the residual, **{digits} · 10{raised}** times" in text_of(at)


@pytest.mark.parametrize(
    ("text", "query", "causal"), [("A crane ate fish", 1, True), ("A", 0, False)]
)
def test_stream_frames_match_the_readers_sentence(text: str, query: int, causal: bool) -> None:
    chosen = {"query": str(query)} if query else {}
    requested = {"text": text, "causal": str(causal).lower(), "stream_step": "2"} | chosen
    at = open_chapter("residual", **requested)
    frames = data_of(at, "stream_step_player")["frames"]
    marks = [{mark["key"]: mark["text"] for mark in frame["marks"]} for frame in frames]
    results = [
        [frame.get(f"{key} number", "") for key in ("added", "length", "turned")] for frame in marks
    ]
    run = gpt2viz.trace(bundled_model(), text, causal=causal)
    way = stops(bundled_model(), run, query)
    assert len(results) == len(way) == 2 + 2 * N_LAYER
    for stop, (added, length, turned) in zip(way[1:], results[1:], strict=True):
        for number, vector in ((length, stop.stream), (added, stop.added)):
            size = np.linalg.norm(vector)
            assert float(number) == pytest.approx(size, abs=0.06 if size > 9.9 else 0.006)
        assert float(turned.replace("−", "-")) == pytest.approx(stop.cosine, abs=0.006)
    word = run.labels[query]
    messages = [frame["caption"] for frame in frames]
    assert all(caption.startswith(f"“{word}”: ") for caption in messages)
    assert messages[0].endswith(f"Nearest row: “{word}”, cosine 1.00.")
    assert results[0][2] == ""
    lengths, cosines = still(
        at, f"A token's way through the residual stream, step 3 of {len(results)}"
    ).series
    after = [np.linalg.norm(vector) for vector in (way[2].added, way[2].stream)]
    assert_allclose(np.array(lengths.x, float), after, rtol=1e-4)
    assert (lengths.y, cosines.y[0]) == (("added", "stream"), "before")
    assert cosines.x[0] == pytest.approx(way[2].cosine, abs=1e-5)
    parts = [f"layer {n}, {part}" for n in range(N_LAYER) for part in ("attention", "the MLP")]
    for caption, part, row in zip(messages[1:], ["its position", *parts], results[1:], strict=True):
        added, length, turned = row
        adds = f"{part} adds a vector of length {added}. The stream is now {length} long; cosine "
        assert f"{adds}to before {turned}." in caption


@pytest.mark.parametrize(
    ("heat", "x"), [("0.1", "-30,70"), ("1.0", "1.6,0.4"), ("10.0", "0.123,-0.4567")]
)
def test_probabilities_and_loss_match_numpy(heat: str, x: str) -> None:
    at = open_chapter("next-word", heat=heat, target="steel", last_x=x)
    line = formula(at, "z ")
    last = np.array(x.split(","), float)
    check_numbers(line, np.array([[0.9, 0.1], [0.1, 0.9], [0.3, 0.3], [0.8, -0.4]]) @ last)
    z = numbers(line)
    p = formula(at, rf"p = \text{{softmax}}(z / {float(heat):g}) ")
    check_numbers(p, softmax(z / float(heat)))
    (loss,) = formulas(at, "t = 1:")
    check_numbers(loss.partition(r"z_{\text{steel}} ")[2], np.logaddexp.reduce(z) - z[1])


def test_number_of_targets_of_a_text() -> None:
    for text in ("A", "A crane", "A crane ate fish"):
        n = len(bundled_model().tokenizer.encode(text))
        message = f"{n - 1} {'target' if n == 2 else 'targets'} from one text"
        assert (message if n > 1 else "teaches nothing") in text_of(
            open_chapter("next-word", text=text)
        )


@pytest.mark.parametrize(
    ("name", "parameters", "prefix", "expected"),
    [
        ("heads", {"way_C": "1280", "way_nh": "12"}, "h_s = 1280 / 12 ", 1280 / 12),
        ("mistakes", {"try_nh": "7"}, "h_s = C / n_h = 768 / 7 ", 768 / 7),
        ("residual", {"depth": "24"}, r"0.02 / \sqrt{2 \cdot 24} ", 0.02 / np.sqrt(48)),
    ],
)
def test_rounded_quotients_have_an_approximate_sign(
    name: str, parameters: dict[str, str], prefix: str, expected: float
) -> None:
    at = open_chapter(name, **parameters)
    written = formula(at, prefix)
    assert written.startswith(r"\approx")
    check_numbers(written, expected)
    ids = [part.proto.id for part in at.get("bidi_component")]
    # Heads of unequal size have no frames.
    assert not any(id.endswith("way_step_player") for id in ids)


def test_fields_show_exact_or_marked_rounded_numbers() -> None:
    exact = {0.7: "0.7", -100: "-100", 0.12345: "0.12345", 1e-3: "0.001", 0.336690366: "0.3367"}
    assert {number: format_for_field(number) for number in exact} == exact
    for at, count in (
        (chapter("crane"), 0),
        (open_chapter("crane", crane_q="0.12345,0.7"), 0),
        (open_chapter("crane", crane_q="0.123456789,0.7"), 1),
    ):
        assert sum("Rounded to four digits" in text for text in captions(at)) == count


def vocabulary() -> tuple[np.ndarray, list[str]]:
    """The bundled model's token table, and the tokens' labels."""
    _, weights = read(BUNDLED)
    table = weights["wte.weight"].astype(np.float64)
    tokenizer = bundled_model().tokenizer
    return table, [label(tokenizer.token_bytes(n)) for n in range(len(table))]


def nearest(table: np.ndarray, vector: np.ndarray, left_out: list[int]) -> list[int]:
    cosine = table @ vector / np.linalg.norm(table, axis=1) / np.linalg.norm(vector)
    return [n for n in np.argsort(-cosine).tolist() if n not in left_out]


@pytest.mark.parametrize("words", ["king man woman queen", "boy girl mother father"])
def test_sum_of_words_is_reported_with_its_ranks(words: str) -> None:
    table, names = vocabulary()
    a, b, c, expected = (names.index(f"·{word}") for word in words.split())
    at = open_chapter("tokens", plane_sum=words)
    total = table[a] - table[b] + table[c]
    all_near, others = nearest(table, total, []), nearest(table, total, [a, b, c])
    alone = nearest(table, table[a], [a, b, c])
    text = text_of(at)
    ranks = others.index(expected) + 1, alone.index(expected) + 1
    assert f"is number **{ranks[0]:,}** among the sum's neighbours" in text
    assert f"alone it is number {ranks[1]:,}." in text
    moved = {-1: "moved it up the list", 0: "did not change its place", 1: "moved it down the list"}
    assert f"So the sum {moved[int(np.sign(ranks[0] - ranks[1]))]}." in text
    assert ("one of the three input words" in text) == (all_near[0] in (a, b, c))
    rows = at.session_state["_shown"].tables["Nearest neighbours of the sum"]
    listed = [re.findall(r"(\S+) -?\d\.\d\d", row) for row in rows["with the cosine"]]
    assert listed == [[names[n] for n in result[:5]] for result in (all_near, others, alone)]


def test_word_points_match_the_model() -> None:
    table, names = vocabulary()
    words = ["cat", "dog", "sea"]
    at = open_chapter("tokens", plane_words="cat, dog unbelievable sea cat")
    assert "left out: unbelievable" in text_of(at)
    plane = at.session_state["_shown"].pictures["Words as points of a plane"]
    assert plane.names == (*words, "king − man + woman")
    assert plane.made == (3,)
    listed = [*words, "king", "man", "woman"]
    *x, king, man, woman = torch.tensor(table[[names.index(f"·{word}") for word in listed]])
    points = embeddings.onto_plane(
        embeddings.plane(torch.stack(x)), torch.stack([*x, king - man + woman])
    )
    assert_allclose(np.stack([plane.x, plane.y], axis=1), points, atol=1e-4)


def test_undrawable_words_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ("king", "unbelievable \U0001f469 <b> $x$ [l](u)"):
        assert "Type two words or more" in text_of(
            open_chapter("tokens", plane_words=words)
        ).replace("**", "")
        at = open_chapter("tokens", plane_sum=words)
        assert "Type" not in text_of(at) or "four different words" in text_of(at)
        assert len(at.session_state["_shown"].pictures["Words as points of a plane"].names) == 10
    table = torch.full((5120, 256), torch.nan)
    monkeypatch.setattr("gpt2viz.textbook.embeddings.table_of", lambda _: table)
    assert "numbers that aren't finite" in text_of(open_chapter("tokens"))
