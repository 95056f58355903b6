"""Decomposed scores, compared with independently computed parts and with the runs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.explanation import Part, explain_row, explain_score
from tests.checkpoints import ODD, write_checkpoint
from tests.oracles import FAMILIES, Oracle, oracle, write_model

IDS = [5, 300, 17, 17, 219, 88, 400]
ODD_SIZES = "gpt2, odd sizes"
EDITS = {
    "none": "",
    "heads": "off:0.1,scale:1.0:-0.5",
    "mean": "mean:0.2",
    "silent": "attn:0,mlp:1",
    "hidden": "forbid:6:2,window:5",
}


@pytest.fixture(scope="module", params=[*FAMILIES, ODD_SIZES])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained")
    if request.param in FAMILIES:
        return write_model(folder, request.param)
    return write_checkpoint(folder, **ODD)


def parts_of(of: Oracle, trace: gpt2viz.Trace, layer: int) -> dict[str, np.ndarray]:
    """Everything written to the stream before a layer, (T, C) each, as in the papers.

    Only the heads' outputs and the MLPs' additions come from the run, as edits change them.
    """
    ids = list(trace.token_ids)
    parts = {"token": of.embedding[ids], **of.position_vectors(len(ids))}
    for n in range(layer):
        on = not any(edit.kind == "attn" and edit.layer == n for edit in trace.edits)
        W_O, b_O = of.out_proj(n)
        for h, z in enumerate(trace.stage("head_output", n)[0]):
            parts[f"head {n}.{h}"] = on * (z.astype(np.float64) @ W_O[h])
        assert h == len(of.groups) - 1
        if b_O is not None:
            parts[f"bias {n}"] = np.tile(on * b_O, (len(ids), 1))
        parts[f"mlp {n}"] = trace.stage("mlp_output", n)[0].astype(np.float64)
    return parts


def read_by(
    of: Oracle,
    layer: int,
    head: int,
    into: str,
    x: np.ndarray | None,
    stream: np.ndarray,
    run: np.ndarray | None = None,
) -> np.ndarray:
    """The norm with the ``stream``'s scale, then W_Q, W_K or W_V without biases: (T, hs).

    A head's own norm has a fixed scale too, the ``run``'s if that is given, and the result is
    rotated by position. If ``x`` is None, only the biases are read.
    """
    if run is None:
        run = of.read(into, layer, of.normed(stream, layer), biased=True)
    normed = np.tile(of.bias(layer), (len(run[0]), 1)) if x is None else of.norm(x, stream, layer)
    made = of.read(into, layer, normed, biased=x is None)
    return of.finish(into, layer, made, run)[of.row(into, head)]


@pytest.mark.parametrize("edits", EDITS)
def test_every_part_equals_what_was_written(
    folder: Path, edits: str, request: pytest.FixtureRequest
) -> None:
    """With the mask and captured, or without and derived, in turn over edits and families."""
    turn = [*FAMILIES, ODD_SIZES].index(request.node.callspec.params["folder"])
    causal = (turn + [*EDITS].index(edits)) % 2 == 0
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS, causal, explicit=causal, edits=EDITS[edits])
    of, T, n_head = oracle(folder), len(IDS), model.config.n_head
    for layer, head in ((0, 1), (1, 0), (2, n_head - 1)):
        parts = parts_of(of, trace, layer)
        stream = np.sum(list(parts.values()), axis=0)
        q, k = (
            [read_by(of, layer, head, into, x, stream) for x in (*parts.values(), None)]
            for into in "qk"
        )
        raw = trace.stage("scores", layer, head)
        size = float(np.abs(raw).max())
        last = explain_score(model, trace, layer, head, 0, T - 1)  # even if the mask hides it
        expected = [[a[0] @ b[T - 1] for b in k] for a in q]
        assert_allclose(last.table, expected, rtol=1e-5, atol=1e-6 * size)
        for query in (0, 3, T - 1):
            row = explain_row(model, trace, layer, head, query)
            seen = np.flatnonzero(trace.stage("weights", layer, head)[query])
            assert_array_equal(row.keys, seen)
            assert row.names == (*parts, "constant")
            tables = {
                key: np.array([[a[query] @ b[key] for b in k] for a in q]) for key in seen.tolist()
            }
            mean = np.mean(list(tables.values()), axis=0)
            for key, table in tables.items():
                assert_allclose(row.table(key), table, rtol=1e-5, atol=1e-6 * size)
                assert_allclose(row.deviation(key), table - mean, rtol=1e-5, atol=2e-6 * size)
                assert row.table(key).sum() == pytest.approx(raw[query, key], abs=1e-5 * size)
                assert row.at(key).score == raw[query, key]
            assert_allclose(row.weights, trace.stage("weights", layer, head)[query, seen], 1e-4)
            assert row.divisor == pytest.approx(of.divisor(layer))


@pytest.mark.parametrize("text", [[7], [7, 7]])
def test_the_shortest_texts(folder: Path, text: list[int]) -> None:
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, text)
    row = explain_row(model, trace, 1, 0, 0)
    assert row.keys.tolist() == [0]
    assert not row.deviation(0).any()  # with one key nothing differs
    assert row.ablated_weight(0, key_part="token") == 1.0
    with pytest.raises(IndexError, match="doesn't see key 1"):
        row.table(1)


@pytest.mark.parametrize("edits", EDITS)
def test_a_heads_part_opens_into_the_tokens_it_read(folder: Path, edits: str) -> None:
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS, edits != "mean", edits=gpt2viz.parse_edits(EDITS[edits]))
    parts = explain_score(model, trace, 2, 0, 5, 3)
    for n, name in enumerate(parts.names):
        if not name.startswith("head"):
            with pytest.raises(ValueError, match=r"the heads before are: head 0\.0"):
                parts.opened("key", name)
        elif EDITS[edits] == f"mean:{name.removeprefix('head ')}":
            with pytest.raises(ValueError, match="read no token of this text"):
                parts.opened("key", name)
        else:
            by_key, by_query = parts.opened("key", name), parts.opened("query", name)
            assert by_key.shape == by_query.shape == (len(IDS), len(parts.names))
            size = np.abs(parts.table).max()
            assert_allclose(by_key.sum(axis=0), parts.table[:, n], atol=1e-5 * size)
            assert_allclose(by_query.sum(axis=0), parts.table[n], atol=1e-5 * size)
            layer, head = map(int, name.removeprefix("head ").split("."))
            unseen = trace.stage("weights", layer, head)[3] == 0
            assert not by_key[unseen].any()


def test_one_token_of_a_head_is_weight_times_value(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS)
    of, parts = oracle(folder), explain_score(model, trace, 1, 0, 6, 4)
    x = np.sum(list(parts_of(of, trace, 1).values()), axis=0)
    token = int(np.argmax(trace.stage("weights", 0, 2)[4, :5]))
    vectors = trace.stage("weights", 0, 2)[4, token] * trace.stage("v", 0, 2)[token]
    vectors = vectors.astype(np.float64) @ of.out_proj(0)[0][2]
    k = read_by(of, 1, 0, "k", np.tile(vectors, (7, 1)), x)[4]
    q = read_by(of, 1, 0, "q", of.embedding[IDS], x)[6]
    assert parts.opened("key", "head 0.2")[token, 0] == pytest.approx(q @ k, rel=1e-4)


def test_ablated_weight_equals_a_softmax_without_the_part(folder: Path) -> None:
    """The row's softmax, recomputed without the part in its scores."""
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS)
    row = explain_row(model, trace, 2, 1, 5)
    keys = row.keys.tolist()  # a window may hide the first
    scores = trace.stage("scores", 2, 1)[5, keys].astype(np.float64)
    for query_part, key_part in (("head 0.0", "token"), (None, "mlp 1"), ("constant", None)):
        i = slice(None) if query_part is None else [row.names.index(query_part)]
        j = slice(None) if key_part is None else [row.names.index(key_part)]
        less = scores - [row.table(key)[i][:, j].sum() for key in keys]
        expected = np.exp(less / row.divisor) / np.exp(less / row.divisor).sum()
        for n, key in enumerate(keys):
            result = row.ablated_weight(key, query_part=query_part, key_part=key_part)
            assert result == pytest.approx(expected[n], rel=1e-6)
    with pytest.raises(ValueError, match="name a part"):
        row.ablated_weight(3)
    with pytest.raises(ValueError, match=r"no part 'head 2\.0'"):
        row.ablated_weight(3, key_part="head 2.0")


def queries_and_keys(
    of: Oracle, trace: gpt2viz.Trace, layer: int, head: int, x: np.ndarray
) -> list[np.ndarray]:
    """Every query and key of a head (T, hs), from x (T, C) with the scales of a run."""
    stream = trace.stage("residual_out", layer - 1)[0].astype(np.float64)
    made = []
    for into in "qk":
        unnormed: Any = f"{into}_unnormed"
        run = trace.stage(unnormed, layer)[0].astype(float) if unnormed in trace.graph else None
        read = [read_by(of, layer, head, into, part, stream, run) for part in (x, None)]
        made.append(read[0] + read[1])
    return made


@pytest.mark.parametrize(
    ("length", "causal", "edits"),
    [
        (1, True, "none"),
        (7, False, "none"),
        (7, True, "heads"),
        (7, True, "mean"),
        (7, True, "silent"),
        (7, False, "hidden"),
    ],
)
def test_ablated_part_weight_equals_a_deleted_part(
    folder: Path, length: int, causal: bool, edits: str
) -> None:
    """With a fixed scale, scores fall by the part's row and column; the softmax is recomputed."""
    layer, head, query = 2, 1, max(length - 2, 0)
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS[:length], causal, edits=gpt2viz.parse_edits(EDITS[edits]))
    of = oracle(folder)
    parts = parts_of(of, trace, layer)
    stream = np.sum(list(parts.values()), axis=0)
    q, k = queries_and_keys(of, trace, layer, head, stream)
    row = explain_row(model, trace, layer, head, query)
    keys = row.keys.tolist()
    tables = np.array([row.table(key) for key in keys])
    own = trace.stage("k", layer, head)[keys].astype(np.float64)
    size = 1e-9 * np.abs(tables).max()
    assert_allclose(tables.sum(axis=(1, 2)), (k @ q[query])[keys], rtol=1e-9, atol=size)
    for part, vectors in parts.items():
        n = row.names.index(part)
        q_less, k_less = queries_and_keys(of, trace, layer, head, stream - vectors)
        less = (k @ q[query] - k_less @ q_less[query])[keys]
        fallen = tables[:, n].sum(axis=1) + tables[:, :, n].sum(axis=1) - tables[:, n, n]
        assert_allclose(fallen, less, rtol=1e-9, atol=size)
        results = [row.ablated_part_weight(key, part) for key in keys]
        # The full keys are the run's own, which float32 has rounded.
        less_of_run = own @ (q - q_less)[query] + (k - k_less)[keys] @ q_less[query]
        for expected, rtol in ((less_of_run, 1e-9), (less, 1e-6)):
            left = np.exp((row.scores - expected) / row.divisor)
            assert_allclose(results, left / left.sum(), rtol=rtol)
    with pytest.raises(ValueError, match=r"no part 'head 2\.0'"):
        row.ablated_part_weight(keys[0], "head 2.0")


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a")
    write_checkpoint(tmp_path / "b", seed=1)
    model, other = gpt2viz.load_model(tmp_path / "a"), gpt2viz.load_model(tmp_path / "b")
    trace = gpt2viz.trace(model, IDS)
    for wrong in ((3, 0, 0, 0), (0, 4, 0, 0), (0, 0, 7, 0), (0, 0, 0, -8)):
        with pytest.raises(IndexError):
            explain_score(model, trace, *wrong)
    assert [explain_score(model, trace, 0, 0, -1, n).query for n in (-7, 6)] == [6, 6]
    with pytest.raises(ValueError, match="not by b"):
        explain_row(other, trace, 0, 0, 0)
    with pytest.raises(ValueError, match="none, this is layer 0"):
        explain_score(model, trace, 0, 0, 1, 0).opened("key", "head 0.0")


def test_a_part_is_a_value_that_equals_its_name() -> None:
    parts = [Part("head", 0, 12), Part("mlp", 3), Part("bias", 1), Part("token")]
    assert parts == ["head 0.12", "mlp 3", "bias 1", "token"]
    assert parts[0].of_head == (0, 12)
    for part in parts:
        again = copy.deepcopy(part)
        assert (again, vars(again)) == (part, vars(part))
    with pytest.raises(ValueError, match="'mlp 3' isn't a head's part"):
        _ = parts[1].of_head
