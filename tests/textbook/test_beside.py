"""Sections beside the worked examples: masks, values, blocks, dropout, the stream, neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import attention, embeddings, heads, mlp, residual
from gpt2viz.textbook.residual import LANES, lane_gradients
from tests.bundled import CRANE, N_LAYER, bundled_model, stages
from tests.numpy_gpt2 import read, softmax
from tests.textbook.oracle import JOURNEY, draw, gelu_tanh, hide


@pytest.mark.parametrize(("T", "C", "d_k", "d_v"), [(3, 5, 2, 3), (1, 2, 1, 4), (6, 3, 3, 1)])
def test_values_may_differ_in_size_from_keys(T: int, C: int, d_k: int, d_v: int) -> None:
    x, w_q, w_k, w_v = draw(T, C), draw(d_k, C), draw(d_k, C, scale=2), draw(d_v, C)
    itself, chosen = attention.compare_values(x, w_q, w_k, w_v)
    weights = softmax(x @ w_q.T @ w_k @ x.T / np.sqrt(d_k))
    for result, v in ((itself, x), (chosen, x @ w_v.T)):
        assert_allclose(result.weights, weights, atol=1e-5)
        assert_allclose(result.output, weights @ v, atol=1e-5)
    assert itself.output.shape == (T, C)
    assert chosen.output.shape == (T, d_v)
    assert (itself.output.amax(0) <= torch.tensor(x.max(axis=0)) + 1e-5).all()


def test_example_of_values_reads_the_actions() -> None:
    _, chosen = attention.compare_values(
        attention.VALUE_X, attention.VALUE_WQ, attention.VALUE_WK, attention.VALUE_WV
    )
    assert_allclose(chosen.v, np.array(attention.VALUE_X)[:, 2:])
    assert chosen.weights.argmax(dim=1).tolist()[::2] == [1, 1]
    assert chosen.output.argmax(dim=1).tolist()[::2] == [1, 1]  # both read "eats"


@pytest.mark.parametrize("T", [1, 2, 5])
def test_added_mask_equals_a_filled_mask(T: int) -> None:
    scores = draw(T, T, scale=30)
    tensor = torch.tensor(scores)
    M = attention.added_mask(T)
    for i, j in np.ndindex(T, T):
        assert M[i, j] == (-np.inf if j > i else 0)
    assert_allclose(attention.add_mask(tensor), hide(scores))
    assert_allclose(attention.add_mask(tensor).softmax(-1), softmax(hide(scores)))


def test_stored_mask_is_a_sliced_and_broadcast_buffer() -> None:
    mask, scores = attention.StoredMask(8), draw(2, 3, 5, 5)
    assert list(mask.parameters()) == []
    assert {name: t.shape for name, t in mask.state_dict().items()} == {"bias": (1, 1, 8, 8)}
    for b, h in np.ndindex(2, 3):
        assert_allclose(mask(torch.tensor(scores))[b, h], hide(scores[b, h]))
    shapes = [size for _, size in attention.stored_mask_steps(8, 2, 12, 4)]
    shared, all_heads = "(1, 1, 4, 4)", "(2, 12, 4, 4)"
    assert shapes == ["(8, 8)", "(1, 1, 8, 8)", shared, all_heads, all_heads]


@pytest.mark.parametrize("seed", [0, 3])
def test_three_blocks_equal_numpy(seed: int) -> None:
    x = draw(6, 3)
    result = mlp.run_blocks(x, seed)
    tables = {
        name: [t.detach().double().numpy() for t in block.parameters()]
        for name, block in mlp.three_blocks(3, seed).items()
    }
    for name, curve in {"GELU": gelu_tanh, "ReLU": lambda x: np.maximum(x, 0)}.items():
        widen, back = tables[name]
        assert_allclose(result[name].inside, curve(x @ widen.T), atol=1e-5)
        assert_allclose(result[name].output, curve(x @ widen.T) @ back.T, atol=1e-5)
    gate, up, down = tables["SwiGLU"]
    opened = x @ gate.T / (1 + np.exp(-x @ gate.T)) * (x @ up.T)
    assert_allclose(result["SwiGLU"].inside, opened, atol=1e-5)
    assert_allclose(result["SwiGLU"].output, opened @ down.T, atol=1e-5)
    for gelu, relu in zip(tables["GELU"], tables["ReLU"], strict=True):
        assert_allclose(gelu, relu)
    assert {ran.n_parameters for ran in result.values()} == {2 * 3 * 12} == {3 * 3 * 8}


@pytest.mark.parametrize("lane", LANES)
def test_gradient_at_each_layer_equals_finite_differences(lane: str) -> None:
    """The change of the end, along its gradient, for a small change of each layer's numbers."""
    depth, C = 3, 4
    gradients = lane_gradients(depth, lane, C=C)
    layers = []
    for n in range(depth):
        generator = torch.Generator().manual_seed(1 + n)
        widen = torch.empty(4 * C, C).normal_(std=C**-0.5, generator=generator)
        back = torch.empty(C, 4 * C).normal_(std=(4 * C) ** -0.5, generator=generator)
        layers.append((widen.double().numpy(), back.double().numpy()))
    normal = [torch.randn(C, generator=torch.Generator().manual_seed(n)) for n in (0, depth + 1)]
    start, end = (t.double().numpy() for t in normal)

    def run_one(x: np.ndarray, n: int) -> np.ndarray:
        widen, back = layers[n]
        read = (x - x.mean()) / np.sqrt(x.var() + 1e-5) if "norm" in lane else x
        change: np.ndarray = back @ gelu_tanh(widen @ read)
        if "√L" in lane:
            change = change / np.sqrt(depth)
        return x + change if lane.startswith("x") else change

    def run(x: np.ndarray, since: int) -> np.ndarray:
        for n in range(since, depth):
            x = run_one(x, n)
        return x

    stream, step = start, 1e-6
    for n in range(depth + 1):
        slopes = [(run(stream + d, n) - run(stream - d, n)) @ end for d in step * np.eye(C)]
        size = np.sqrt(np.mean((np.array(slopes) / (2 * step)) ** 2))
        assert gradients[n] == pytest.approx(size / np.sqrt(np.mean(end**2)), rel=1e-3)
        if n < depth:
            stream = run_one(stream, n)


def variant_weights(name: str, x: np.ndarray, seed: int) -> np.ndarray:
    tables = {
        key: table.detach().double().numpy()
        for key, table in heads.the_variants(x.shape[1], 3, seed)[name].named_parameters()
    }
    if not tables:
        return softmax(x @ x.T)
    rows = slice(0, 1) if name == "multi-head" else slice(None)  # head 0 has one channel of three
    w_q, w_k = tables["query.weight"][rows], tables["key.weight"][rows]
    scores = (x @ w_q.T) @ (x @ w_k.T).T / np.sqrt(len(w_q))
    return softmax(scores if name == "trainable" else hide(scores))


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("p", [0.0, 0.5, 0.9])
def test_weights_of_each_variant_with_dropout(p: float, seed: int) -> None:
    result = heads.drop_weights(JOURNEY, 3, seed, p, training=True, drop_seed=seed)
    assert list(result) == ["nothing learned", "trainable", "causal", "multi-head"]
    gone = []
    for name, out in result.items():
        assert_allclose(out.weights, variant_weights(name, JOURNEY, seed), atol=1e-5)
        later = np.triu(np.ones((6, 6), bool), 1) & (name in ("causal", "multi-head"))
        assert (out.hidden.numpy() == later).all()
        alive = out.dropped.numpy() != 0
        assert_allclose(out.dropped.numpy()[alive], out.weights.numpy()[alive] / (1 - p), rtol=1e-5)
        gone.append(~alive[~later.any(axis=1)] if later.any() else ~alive)
        assert not out.dropped.numpy()[later].any()
    assert (gone[0] == gone[1]).all()  # the same positions
    assert gone[0].any() == (p > 0)


def test_weights_without_dropout_give_the_variants_output() -> None:
    """Without dropout they are the weights that the modules apply to values."""
    outputs = heads.four_variants(JOURNEY, nh=3, seed=2)
    result = heads.drop_weights(JOURNEY, 3, 2, 0.5, training=False)
    for name in ("trainable", "causal"):
        variant = heads.the_variants(3, 3, 2)[name]
        value = dict(variant.named_parameters())["value.weight"].detach().numpy()
        mixed = result[name].dropped.numpy() @ (JOURNEY @ value.T)
        assert_allclose(outputs[name], mixed, atol=1e-5)
    assert_allclose(
        outputs["nothing learned"], result["nothing learned"].dropped.numpy() @ JOURNEY, atol=1e-5
    )


@pytest.mark.parametrize(("T", "C", "nh"), [(4, 12, 3), (1, 6, 6), (3, 8, 1), (4, 16, 4)])
def test_split_and_merge_equal_numpy(T: int, C: int, nh: int) -> None:
    x = np.arange(T * C).reshape(T, C)
    parts = np.stack(np.split(x, nh, axis=1))  # (nh, T, hs), cut one by one
    rows = np.stack([[parts[h, t] for h in range(nh)] for t in range(T)])
    for result, expected in zip(
        heads.split_and_merge(T, C, nh), (x, rows, parts, rows, x), strict=True
    ):
        assert_array_equal(result, expected)


def test_indivisible_width_is_refused() -> None:
    with pytest.raises(RuntimeError):
        heads.split_and_merge(2, 10, 3)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("position", [0, 3])
def test_stops_of_a_token_equal_numpy(position: int, causal: bool) -> None:
    model = bundled_model()
    trace = gpt2viz.trace(model, CRANE, causal=causal)
    ids = trace.token_ids
    out, (_, w) = stages(CRANE, causal), read(BUNDLED)
    token, pos = w["wte.weight"][ids[position]], w["wpe.weight"][position]
    added: list[Any] = [token, pos]
    for n in range(N_LAYER):
        added += [out["attention_output"][n][position], out["mlp_output"][n][position]]
    result = residual.stops(model, trace, position)
    assert [(s.key, s.layer) for s in result] == [
        ("token_embedding", None),
        ("embedding", None),
        *((key, n) for n in range(N_LAYER) for key in ("residual_mid", "residual_out")),
    ]
    streams = np.cumsum(added, axis=0)
    for n, stop in enumerate(result):
        assert_allclose(stop.added, added[n], rtol=2e-4, atol=2e-4)
        assert_allclose(stop.stream, streams[n], rtol=2e-4, atol=2e-4)
        before, now = streams[max(n - 1, 0)], streams[n]
        size = np.linalg.norm(now)
        assert_allclose(stop.cosine, before @ now / np.linalg.norm(before) / size, atol=1e-4)
        cosines = w["wte.weight"] @ now / np.linalg.norm(w["wte.weight"], axis=1) / size
        nearest, alike = map(list, zip(*stop.nearest, strict=True))
        assert_allclose(alike, np.sort(cosines)[::-1][:5], atol=1e-4)
        assert_allclose(cosines[nearest], alike, atol=1e-4)
    assert result[0].nearest[0].id == ids[position]
    assert result[0].cosine == pytest.approx(1)


@pytest.mark.parametrize(("n", "C"), [(2, 5), (3, 2), (5, 4), (10, 256), (4, 1)])
def test_plane_has_the_largest_variance(n: int, C: int) -> None:
    x = draw(n, C)
    tensor = torch.tensor(x, dtype=torch.float32)
    result = embeddings.plane(tensor)
    centred = x - x.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    points = embeddings.onto_plane(result, tensor).numpy()
    k = min(2, n - 1, C)
    for m in range(k):
        direction = vectors[:, -1 - m]
        direction = direction * np.sign(direction[np.abs(direction).argmax()])
        assert_allclose(result.directions[m], direction, atol=2e-4)
        assert_allclose(points[:, m], centred @ direction, atol=1e-3)
        assert result.share[m] == pytest.approx(values[-1 - m] / values.sum(), abs=1e-4)
    assert_allclose(points[:, k:], 0, atol=1e-6)
    assert_allclose(result.share[k:], 0, atol=1e-6)


def test_equal_words_are_one_point() -> None:
    result = embeddings.plane(torch.ones(3, 4))
    assert_allclose(embeddings.onto_plane(result, torch.ones(3, 4)), 0)
    assert_allclose(result.share, 0)


def test_neighbours_have_the_largest_cosines() -> None:
    table, requested = draw(50, 6), draw(3, 6)
    table[7] = 0  # no direction
    lengths = np.linalg.norm(table, axis=1)
    lengths[7] = 1
    expected = requested @ table.T / lengths / np.linalg.norm(requested, axis=1)[:, None]
    result = embeddings.cosines(*(torch.tensor(t, dtype=torch.float32) for t in (table, requested)))
    assert_allclose(result, expected, atol=1e-5)
    for row, cosine in zip(result, expected, strict=True):
        order = np.argsort(-cosine)
        left_out = [int(order[0]), int(order[3]), 49]
        rest = [n for n in order.tolist() if n not in left_out]
        assert embeddings.rank(row, int(order[2])) == 3
        near = embeddings.nearest(row, 4, left_out)
        assert [neighbour.id for neighbour in near] == rest[:4]
        assert_allclose([neighbour.cosine for neighbour in near], cosine[rest[:4]], atol=1e-5)
        for index in (0, 5, len(rest) - 1):
            assert embeddings.rank(row, rest[index], left_out) == index + 1
    assert len(embeddings.nearest(result[0], 99, [1, 2])) == 48


def test_embedding_table_and_tokens_of_words() -> None:
    model = bundled_model()
    _, weights = read(BUNDLED)
    assert_allclose(embeddings.table_of(model), weights["wte.weight"], atol=1e-6)
    id = embeddings.token_of("king", model.tokenizer)
    assert id is not None
    assert model.tokenizer.token_bytes(id) == b" king"
    for no_token in ("unbelievable", "\ud800"):
        assert embeddings.token_of(no_token, model.tokenizer) is None
