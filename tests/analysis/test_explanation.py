"""Scores taken apart, against parts that are computed in another way, and against the runs."""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.explanation import Part, explain_row, explain_score
from tests.analysis.copying_model import copying_model
from tests.checkpoints import SHAPES, write_checkpoint
from tests.numpy_gpt2 import by_head, read

IDS = [5, 300, 17, 17, 219, 88, 400]
EDITS = {
    "none": "",
    "heads": "off:0.1,scale:1.0:-0.5",
    "mean": "mean:0.2",
    "silent": "attn:0,mlp:1",
    "hidden": "forbid:6:2,window:5",
}


@pytest.fixture(scope="module", params=SHAPES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("explained"), **SHAPES[request.param])


def written(folder: Path, trace: gpt2viz.Trace, layer: int) -> dict[str, np.ndarray]:
    """Everything that was written to the stream before a layer, (T, C) each, from the papers.

    Only the heads' outputs and the MLPs' additions are the run's own, as edits change them.
    """
    config, w = read(folder)
    ids, n_head = list(trace.token_ids), config["n_head"]
    parts = {"token": w["wte.weight"][ids], "position": w["wpe.weight"][: len(ids)]}
    for n in range(layer):
        on = not any(edit.kind == "attn" and edit.layer == n for edit in trace.edits)
        W_O = w[f"h.{n}.attn.c_proj.weight"]
        for h, z in enumerate(trace.stage("head_output", n)[0]):
            rows = slice(h * z.shape[1], (h + 1) * z.shape[1])
            parts[f"head {n}.{h}"] = on * (z.astype(np.float64) @ W_O[rows])
        assert h == n_head - 1
        parts[f"bias {n}"] = np.tile(on * w[f"h.{n}.attn.c_proj.bias"], (len(ids), 1))
        parts[f"mlp {n}"] = trace.stage("mlp_output", n)[0].astype(np.float64)
    return parts


def read_by(
    folder: Path, layer: int, head: int, which: int, x: np.ndarray, sigma: np.ndarray
) -> np.ndarray:
    """LayerNorm with its scale held at ``sigma``, then W_Q (``which`` 0) or W_K (1): no biases."""
    config, w = read(folder)
    centred = (x - x.mean(axis=1, keepdims=True)) / sigma
    normed = centred * w[f"h.{layer}.ln_1.weight"]
    made = np.split(normed @ w[f"h.{layer}.attn.c_attn.weight"], 3, axis=1)[which]
    return by_head(made, config["n_head"])[head]


@pytest.mark.parametrize("edits", EDITS)
def test_every_part_is_what_was_written_there(folder: Path, edits: str) -> None:
    """With the mask and captured, and without and derived; both others are of numbers alike."""
    for causal in (True, False):
        every_part_is_what_was_written_there(folder, causal, causal, edits)


def every_part_is_what_was_written_there(
    folder: Path, causal: bool, explicit: bool, edits: str
) -> None:
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(
        model, IDS, causal, explicit=explicit, edits=gpt2viz.parse_edits(EDITS[edits])
    )
    config, w = read(folder)
    T, hs = len(IDS), config["n_embd"] // config["n_head"]
    for layer, head in ((0, 1), (1, 0), (2, config["n_head"] - 1)):
        parts = written(folder, trace, layer)
        stream = np.sum(list(parts.values()), axis=0)
        sigma = np.sqrt(stream.var(axis=1, keepdims=True) + config["layer_norm_epsilon"])
        q, k = (
            [read_by(folder, layer, head, which, x, sigma) for x in parts.values()]
            for which in (0, 1)
        )
        bias = w[f"h.{layer}.ln_1.bias"] @ w[f"h.{layer}.attn.c_attn.weight"]
        constant = by_head((bias + w[f"h.{layer}.attn.c_attn.bias"])[None], 3 * config["n_head"])
        q.append(np.tile(constant[head], (T, 1)))
        k.append(np.tile(constant[config["n_head"] + head], (T, 1)))
        raw = trace.stage("scores", layer, head)
        size = float(np.abs(raw).max())
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
            assert row.divisor == pytest.approx(hs**0.5 * config_divisor(config, layer))


def config_divisor(config: dict[str, Any], layer: int) -> int:
    return layer + 1 if config.get("scale_attn_by_inverse_layer_idx") else 1


def test_the_sum_is_exact_in_double(folder: Path) -> None:
    """Against LayerNorm and W_Q, W_K of the summed stream, with no part told apart."""
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS)
    config, w = read(folder)
    layer, head = 2, 1
    stream = np.sum(list(written(folder, trace, layer).values()), axis=0)
    x = trace.stage("residual_out", layer - 1)[0].astype(np.float64)
    sigma = np.sqrt(x.var(axis=1, keepdims=True) + config["layer_norm_epsilon"])
    normed = (stream - stream.mean(axis=1, keepdims=True)) / sigma * w[f"h.{layer}.ln_1.weight"]
    normed = normed + w[f"h.{layer}.ln_1.bias"]
    made = normed @ w[f"h.{layer}.attn.c_attn.weight"] + w[f"h.{layer}.attn.c_attn.bias"]
    q, k, _v = (by_head(part, config["n_head"])[head] for part in np.split(made, 3, axis=1))
    for query, key in np.ndindex(len(IDS), len(IDS)):  # keys that the mask hides, too
        parts = explain_score(model, trace, layer, head, query, key)
        assert parts.table.sum() == pytest.approx(q[query] @ k[key], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("text", [[7], [7, 7]])
def test_the_shortest_texts(folder: Path, text: list[int]) -> None:
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, text)
    row = explain_row(model, trace, 1, 0, 0)
    assert row.keys.tolist() == [0]
    assert not row.deviation(0).any()  # one key shares everything with itself
    assert row.ablated_weight(0, key_part="token") == 1.0
    with pytest.raises(IndexError, match="doesn't see key 1"):
        row.table(1)


@pytest.mark.parametrize("edits", EDITS)
def test_a_head_opens_into_the_tokens_it_read(folder: Path, edits: str) -> None:
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


def test_one_token_of_a_head_is_its_weight_times_its_value(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS)
    config, w = read(folder)
    hs = config["n_embd"] // config["n_head"]
    parts = explain_score(model, trace, 1, 0, 6, 4)
    x = np.sum(list(written(folder, trace, 1).values()), axis=0)
    sigma = np.sqrt(x.var(axis=1, keepdims=True) + config["layer_norm_epsilon"])
    token = int(np.argmax(trace.stage("weights", 0, 2)[4, :5]))
    wrote = trace.stage("weights", 0, 2)[4, token] * trace.stage("v", 0, 2)[token]
    wrote = wrote.astype(np.float64) @ w["h.0.attn.c_proj.weight"][2 * hs : 3 * hs]
    k = read_by(folder, 1, 0, 1, np.tile(wrote, (7, 1)), sigma)[4]
    q = read_by(folder, 1, 0, 0, w["wte.weight"][IDS], sigma)[6]
    assert parts.opened("key", "head 0.2")[token, 0] == pytest.approx(q @ k, rel=1e-4)


def test_the_weight_without_a_part(folder: Path) -> None:
    """The row's softmax again, without the part in any of its scores."""
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS)
    row = explain_row(model, trace, 2, 1, 5)
    scores = trace.stage("scores", 2, 1)[5, :6].astype(np.float64)
    for query_part, key_part in (("head 0.0", "token"), (None, "mlp 1"), ("position", None)):
        i = slice(None) if query_part is None else [row.names.index(query_part)]
        j = slice(None) if key_part is None else [row.names.index(key_part)]
        less = scores - [row.table(key)[i][:, j].sum() for key in range(6)]
        expected = np.exp(less / row.divisor) / np.exp(less / row.divisor).sum()
        for key in range(6):
            found = row.ablated_weight(key, query_part=query_part, key_part=key_part)
            assert found == pytest.approx(expected[key], rel=1e-6)
    with pytest.raises(ValueError, match="name a part"):
        row.ablated_weight(3)
    with pytest.raises(ValueError, match=r"no part 'head 2\.0'"):
        row.ablated_weight(3, key_part="head 2.0")


def queries_and_keys(
    folder: Path, layer: int, head: int, x: np.ndarray, sigma: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Every query and key of a head (T, hs), from a stream x (T, C), by ``read_by`` and biases."""
    config, w = read(folder)
    ln_1, attn = f"h.{layer}.ln_1.", f"h.{layer}.attn.c_attn."
    always = w[f"{ln_1}bias"] @ w[f"{attn}weight"] + w[f"{attn}bias"]
    constant = by_head(always[None], 3 * config["n_head"])[:, 0]  # (3 nh, hs)
    q = read_by(folder, layer, head, 0, x, sigma) + constant[head]
    return q, read_by(folder, layer, head, 1, x, sigma) + constant[config["n_head"] + head]


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
def test_a_part_deleted_from_the_stream(
    folder: Path, length: int, causal: bool, edits: str
) -> None:
    """The scale held: scores fall by the part's row and column, and the softmax is made again."""
    layer, head, query = 2, 1, max(length - 2, 0)
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, IDS[:length], causal, edits=gpt2viz.parse_edits(EDITS[edits]))
    parts = written(folder, trace, layer)
    stream = np.sum(list(parts.values()), axis=0)
    run = trace.stage("residual_out", layer - 1)[0].astype(np.float64)
    sigma = np.sqrt(run.var(axis=1, keepdims=True) + model.network.ln_f.eps)
    q, k = queries_and_keys(folder, layer, head, stream, sigma)
    row = explain_row(model, trace, layer, head, query)
    keys = row.keys.tolist()
    tables = np.array([row.table(key) for key in keys])
    own = trace.stage("k", layer, head)[keys].astype(np.float64)
    size = 1e-9 * np.abs(tables).max()
    assert_allclose(tables.sum(axis=(1, 2)), (k @ q[query])[keys], rtol=1e-9, atol=size)
    for part, wrote in parts.items():
        n = row.names.index(part)
        q_less, k_less = queries_and_keys(folder, layer, head, stream - wrote, sigma)
        less = (k @ q[query] - k_less @ q_less[query])[keys]
        fallen = tables[:, n].sum(axis=1) + tables[:, :, n].sum(axis=1) - tables[:, n, n]
        assert_allclose(fallen, less, rtol=1e-9, atol=size)
        found = [row.ablated_part_weight(key, part) for key in keys]
        # What the whole keys add is read off the run's own, which float32 has rounded.
        less_of_run = own @ (q - q_less)[query] + (k - k_less)[keys] @ q_less[query]
        for expected, rtol in ((less_of_run, 1e-9), (less, 1e-6)):
            left = np.exp((row.scores - expected) / row.divisor)
            assert_allclose(found, left / left.sum(), rtol=rtol)
    with pytest.raises(ValueError, match=r"no part 'head 2\.0'"):
        row.ablated_part_weight(keys[0], "head 2.0")


def test_a_copying_head_built_by_hand() -> None:
    """It looks for what followed the same token: its token × what head 0.0 wrote at the key."""
    model = copying_model()
    ids = [3, 7, 1, 9, 5, 7]
    trace = gpt2viz.trace(model, ids)
    assert all(b == a + 1 for a, b in pairwise(trace.stage("weights", 0, 0).argmax(axis=1)[1:]))
    assert trace.stage("weights", 1, 0)[5].argmax() == 2  # after the 7 of before
    row = explain_row(model, trace, 1, 0, 5)
    deviation = row.deviation(2)
    place = row.names.index("token"), row.names.index("head 0.0")
    assert deviation[place] / deviation.sum() > 0.99
    by_token = row.at(2).opened("key", "head 0.0")[:, place[0]]
    assert by_token.argmax() == 1
    assert by_token[1] / by_token.sum() > 0.99


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a")
    write_checkpoint(tmp_path / "b", seed=1)
    model, other = gpt2viz.load_model(tmp_path / "a"), gpt2viz.load_model(tmp_path / "b")
    trace = gpt2viz.trace(model, IDS)
    for wrong in ((3, 0, 0, 0), (0, 4, 0, 0), (0, 0, 7, 0), (0, 0, 0, -1)):
        with pytest.raises(IndexError):
            explain_score(model, trace, *wrong)
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
        assert (again, again.kind, again.layer, again.head) == (
            (part, part.kind, part.layer, part.head)
        )
    with pytest.raises(ValueError, match="'mlp 3' isn't a head's part"):
        _ = parts[1].of_head
