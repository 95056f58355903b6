"""The Textbook's pages on what came after GPT-2: pictures and text follow every edit."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import after_gpt2, attention, mlp
from tests.app.chapters import chapter as shown
from tests.app.chapters import (
    check_numbers,
    formula,
    joined,
    links,
    matrix,
    numbers,
    open_chapter,
    text_of,
)
from tests.app.pages import chart, heatmaps, open_page, plain
from tests.bundled import ids_of, weights
from tests.numpy_gpt2 import softmax
from tests.textbook import oracle

ODD = [0.123, -4.5, 7.25, 0.5, -0.75, 2, 33.3, 0.001]


@pytest.mark.parametrize("x", [attention.SENTENCE_X, ODD])
def test_cache_keeps_keys_and_values(x: Any) -> None:
    at = open_chapter("kv-cache", cache_x=joined(x))
    torch.manual_seed(42)
    seeded = [torch.randn(2, 2).double().numpy() for _ in range(3)]
    written = after_gpt2.write_uncached(np.reshape(x, (4, 2)), *seeded)
    result, output = heatmaps(at, "cache_kept"), written.output
    expected = {"keys kept": written.keys, "values kept": written.values}
    expected |= {"output, read again": output, "output, cached": output}
    for name, part in expected.items():
        assert_allclose(result[name], part, rtol=1e-4, atol=1e-5)
    for name, cost in (("read again", [16, 40, 72, 112]), ("cached", [16, 20, 24, 28])):
        assert numbers(formula(at, rf"\text{{{name}: }}")).tolist() == [*cost, sum(cost)]
    curves = {line["name"]: line["y"] for line in chart(at, "cache_cost")["data"]}
    step = np.arange(1, 33)
    again, cached = 3 * step * 768 * 64 + 2 * 64 * step**2, 3 * 768 * 64 + 2 * 64 * step
    assert_allclose(curves["read again"], again)
    assert_allclose(curves["cached"], cached)
    assert f"**{again.sum() / cached.sum():.1f}** times as many" in text_of(at)


def test_links_to_the_models_cache() -> None:
    for name in ("kv-cache", "sinks"):
        (requested,) = (link for link in links(shown(name), "predict") if "cache" in link)
        assert (requested["predict"], requested["cache"]) == ("generate", "true")
    there = open_page("predict", **requested)
    assert there.toggle(key="cache").value
    assert not there.warning


@pytest.mark.parametrize(
    ("x", "c"), [([0.3, 0, 0.5, 0.1], "1.0"), ([0.3, -99, 7, 0], "-10.0"), ([2] * 4, "0.5")]
)
def test_shift_changes_rmsnorm_only(x: list[float], c: str) -> None:
    at = open_chapter("rmsnorm", rms_shift=c, rms_x=joined(x))
    rows = matrix(at, "rms_rows")
    for row, name, values in ((0, "x", np.array(x)), (1, "x + c", np.array(x) + float(c))):
        layer = (values - values.mean()) / np.sqrt(values.var() + 1e-5)
        size = np.sqrt((values**2).mean() + 1e-5)
        assert_allclose(rows[row], layer, atol=1e-4)
        assert_allclose(rows[2 + row], values / size, atol=1e-5)
        written, outcome = formula(at, rf"\text{{RMS}}({name}) ").split(r"\qquad")
        check_numbers(written, size)
        check_numbers(outcome.partition(")} ")[2], values / numbers(written))


@pytest.mark.parametrize("edited", [False, True])
def test_gate_matches_numpy(edited: bool) -> None:
    gate, up = np.array(mlp.GATE, float), np.array(mlp.UP, float)
    x, down = np.array(mlp.GATED_X, float), np.array(mlp.DOWN, float)
    if edited:
        x, gate, up, down = x * 1.7 - 2, gate * 0.3, up - 5.123, down * 9
    tables = {"gate_x": x, "gate_w": gate, "gate_up": up, "gate_down": down}
    at = open_chapter("swiglu", **{name: joined(table.round(4)) for name, table in tables.items()})
    asks, makes = gate @ x, up @ x
    opened = asks / (1 + np.exp(-asks))
    assert_allclose(
        matrix(at, "gate_inside"), [asks, opened, makes, opened * makes], rtol=1e-4, atol=1e-5
    )
    first, second = formula(at, r"\text{SiLU(gate)} ").split(r"\qquad \text{up}")
    check_numbers(first, opened)
    check_numbers(second, makes)
    passes = formula(at, r"\text{passes} = \text{SiLU(gate)} \cdot \text{up} ")
    check_numbers(passes, numbers(first) * numbers(second))
    check_numbers(formula(at, r"y = \text{down} \cdot \text{passes} "), down @ numbers(passes))


def test_gate_channels_and_parameter_counts() -> None:
    at = open_chapter("swiglu", gate_x="-1,0.5", gate_C="4096")
    assert "Set x₁ to −1, and channel 1 opens in place of channel 0" in text_of(at)
    silu = [-2 / (1 + np.exp(2)), 2 / (1 + np.exp(-2))]
    assert_allclose(matrix(at, "gate_inside")[1, :2], silu, rtol=1e-4)
    table = at.dataframe[0].value
    assert table["channels inside"].tolist() == [16_384, 11_008]
    assert table["parameters"].tolist() == [2 * 4096 * 16_384, 3 * 4096 * 11_008]


@pytest.mark.parametrize(
    ("table", "at_q", "at_k", "move"),
    [([1, 0, 0.5, 0.5, 0.8, 0.6, 0.5, -0.5], 7, 4, 10), (ODD, 3, 30, 1000)],
)
def test_rope_score_depends_on_distance_only(
    table: list[float], at_q: int, at_k: int, move: int
) -> None:
    positions = {"rope_q": str(at_q), "rope_k": str(at_k), "rope_move": str(move)}
    at = open_chapter("rope", rope_qk=joined(table), **positions)
    q, k = both = np.array(table, float).reshape(2, 4)
    turned = after_gpt2.rotate(both, [at_q + move, at_k + move])
    assert_allclose(matrix(at, "rope_turned")[2:], turned, atol=1e-4)
    for by in (0, move):
        written = formula(at, rf"q_{{{at_q + by}}} \cdot k_{{{at_k + by}}} ")
        check_numbers(written, after_gpt2.rotary_score(q, k, at_q, at_k))
    (curve,) = chart(at, "rope_distance")["data"]
    assert_allclose(curve["y"], after_gpt2.score_by_distance(q, k, 64), atol=1e-4)
    assert f"moved on by {move:,}, still {abs(at_q - at_k)} apart" in text_of(at)
    assert ("the key comes later" in text_of(at)) == (at_k > at_q)
    turn = after_gpt2.rotary_angles([1], 4)[0]
    assert_allclose(2 * np.pi / turn, [6, 628], atol=0.5)  # as the page says


@pytest.mark.parametrize(("groups", "x"), [(1, ODD), (2, attention.SENTENCE_X), (4, ODD)])
def test_heads_of_a_group_share_keys(groups: int, x: Any) -> None:
    at = open_chapter("grouped", groups=str(groups), group_x=joined(x))
    words = np.reshape(x, (4, 2))
    torch.manual_seed(0)
    w_q, w_k, _ = 2 * torch.randn(3, 4, 2, 2).double().numpy()
    result = heatmaps(at, "group_weights")
    for n in range(4):
        group = n // (4 // groups)
        mean = np.split(w_k, groups)[group].mean(axis=0)
        weights, _ = oracle.attention(words @ w_q[n].T, words @ mean.T, words)
        seen = np.where(np.tri(4, dtype=bool), result[f"head {n}, group {group}"], 0)
        assert_allclose(seen, weights, atol=1e-4)
    assert numbers(formula(at, rf"2 \cdot {groups} "))[-1] == 2 * groups * 4 * 2 * 4
    table = at.dataframe[0].value
    assert_allclose(table["megabytes kept"], 2 * 12 * table["groups"] * 1024 * 64 * 2 / 1e6)
    assert (table["groups"] * table["query heads in each"]).tolist() == [12] * 6


def test_groups_of_unequal_size_are_rejected() -> None:
    at = open_chapter("grouped", groups="3")
    (error,) = at.error
    assert "4 / 3 = 1.33. Choose a number of groups that divides 4." in error.value


@pytest.mark.parametrize(("scores", "drop"), [([4, 3, 2, 3], False), ([-0.5, 99, 0.1, 98], True)])
def test_dropping_the_first_token_raises_other_weights(scores: list[float], drop: bool) -> None:
    values = np.array(ODD).reshape(4, 2)
    requested = {"sink_scores": joined(scores), "sink_values": joined(ODD)}
    at = open_chapter("sinks", sink_drop=str(drop).lower(), **requested)
    weights = softmax(np.where(np.arange(4) < drop, -np.inf, scores))
    assert_allclose(matrix(at, "sink_weights")[0], weights, atol=1e-6)
    check_numbers(formula(at, r"\text{softmax} "), weights)
    output = formula(at, r"\text{weights} \cdot V ")
    check_numbers(output, numbers(formula(at, r"\text{softmax} ")) @ values)
    assert f"takes away has length **{np.linalg.norm(weights @ values):.2f}**" in text_of(at)


@pytest.mark.parametrize("causal", [True, False])
def test_real_heads_weight_on_the_first_token(causal: bool) -> None:
    text = "The cat sat on the mat and the cat"
    at = open_chapter("sinks", text=text, causal=str(causal).lower())
    on_first = weights(text, causal)[:, :, 1:, 0].mean(axis=-1)
    assert_allclose(matrix(at, "sink_heads"), on_first, atol=1e-4)
    layer, head = np.unravel_index(on_first.argmax(), on_first.shape)
    n = len(ids_of(text))
    alike = np.tri(n) if causal else np.ones((n, n))
    even = (alike / alike.sum(axis=1, keepdims=True))[1:, 0].mean()
    words = text_of(at)
    assert f"head {layer}.{head} rests there most: the {n - 1} tokens" in words
    assert f"give it **{on_first.max():.2f}** of their weight" in words
    assert f"looked at all tokens alike, it would be {even:.2f}" in words


def test_first_token_weight_over_many_texts_is_the_surveys() -> None:
    folder = BUNDLED / "survey"
    with (folder / "heads.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["score"] == "first token"]
    most = max(rows, key=lambda row: float(row["mean"]))
    record = json.loads((folder / "survey.json").read_text(encoding="utf-8"))
    length = record["tokens"]
    even = np.mean([1 / (query + 1) for query in range(1, length)])
    words = text_of(open_chapter("sinks", text="A crane"))
    assert f"most is **{float(most['mean']):.2f}**, in head {most['layer']}.{most['head']}" in words
    assert f"of {length} tokens, all alike would be {even:.2f}" in words


def test_single_token_needs_a_longer_sentence() -> None:
    assert "Write a longer sentence" in text_of(open_chapter("sinks", text="A"))


def test_rnn_states_match_numpy() -> None:
    x = np.array(attention.SENTENCE_X)
    x[0] = [3, -1]
    state, expected = np.zeros(2), []
    for word in x:
        state = np.tanh(word + np.array([[0.5, -0.5], [0.5, 0.5]]) @ state)
        expected.append(state)
    result = matrix(open_chapter("rnn", rnn_x=joined(x)), "rnn_states")
    assert_allclose(result, expected, atol=1e-6)


def test_bytes_of_score_tables() -> None:
    at = open_chapter("flash", flash_T="64", flash_size="16")
    rows = at.session_state["_shown"].tables["Three ways to the same outputs"]
    result = rows["largest table of scores, in bytes"].tolist()
    assert result[:2] == [12 * 64 * 64 * 4, 12 * 64 * 16 * 4]
    assert np.isnan(result[2])


#: By chapter, values that its tables reject.
JUNK = {
    "bpe": {"merge_step": "-1"},
    "kv-cache": {"cache_x": "1,2,3"},
    "rmsnorm": {"rms_x": "nan,0,0,0", "rms_shift": "x"},
    "swiglu": {"gate_x": "1e9,0", "gate_w": "", "gate_up": "a", "gate_down": "inf", "gate_C": "7"},
    "rope": {"rope_qk": "1", "rope_q": "-1", "rope_k": "99", "rope_move": "0.5"},
    "grouped": {"group_x": "<b>", "groups": "0"},
    "flash": {"flash_T": "0", "flash_size": "x"},
    "rnn": {"rnn_x": "1,2", "rnn_T": "-1"},
    "sinks": {"sink_scores": "1;2;3;4", "sink_values": "101,0,0,0,0,0,0,0", "sink_drop": "maybe"},
}


def test_unreadable_values_are_reported_and_dropped(subtests: pytest.Subtests) -> None:
    assert set(JUNK) == {
        name for name, message in CHAPTERS.items() if message.part and message.questions
    }
    for name, junk in JUNK.items():
        with subtests.test(name):
            at = open_chapter(name, **junk)
            message = plain(" ".join(warning.value for warning in at.warning))
            assert [
                key for key in junk if f"{key}: " not in message or key in at.query_params
            ] == []
            assert [block.value for block in at.latex] == [b.value for b in shown(name).latex]
