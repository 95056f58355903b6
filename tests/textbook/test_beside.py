"""Two ways beside each other, each held against NumPy in double precision or finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from gpt2viz.textbook import attention, mlp
from gpt2viz.textbook.residual import lane_gradients
from tests.textbook.oracle import gelu_tanh, hidden, softmax


def made(*size: int, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(sum(size)).normal(0, scale, size)


@pytest.mark.parametrize(("T", "C", "d_k", "d_v"), [(3, 5, 2, 3), (1, 2, 1, 4), (6, 3, 3, 1)])
def test_values_may_have_another_size_than_keys(T: int, C: int, d_k: int, d_v: int) -> None:
    x, w_q, w_k, w_v = made(T, C), made(d_k, C), made(d_k, C, scale=2), made(d_v, C)
    itself, chosen = attention.hand_over(x, w_q, w_k, w_v)
    weights = softmax(x @ w_q.T @ w_k @ x.T / np.sqrt(d_k))
    for found, v in ((itself, x), (chosen, x @ w_v.T)):
        assert_allclose(found.weights, weights, atol=1e-5)
        assert_allclose(found.output, weights @ v, atol=1e-5)
    assert itself.output.shape == (T, C)
    assert chosen.output.shape == (T, d_v)
    assert (itself.output.amax(0) <= torch.tensor(x.max(axis=0)) + 1e-5).all()


def test_things_look_for_actions_and_are_told_what_these_do() -> None:
    _, chosen = attention.hand_over(
        attention.VALUE_X, attention.LOOKS_FOR, attention.FOUND_BY, attention.HANDS_OVER
    )
    assert_allclose(chosen.v, np.array(attention.VALUE_X)[:, 2:])
    assert chosen.weights.argmax(dim=1).tolist()[::2] == [1, 1]
    assert chosen.output.argmax(dim=1).tolist()[::2] == [1, 1]  # both are told "eats"


@pytest.mark.parametrize("T", [1, 2, 5])
def test_an_added_mask_is_one_that_is_filled_in(T: int) -> None:
    scores = made(T, T, scale=30)
    tensor = torch.tensor(scores)
    M = attention.added_mask(T)
    for i, j in np.ndindex(T, T):
        assert M[i, j] == (-np.inf if j > i else 0)
    assert_allclose(attention.add_mask(tensor), hidden(scores))
    assert_allclose(attention.add_mask(tensor).softmax(-1), softmax(hidden(scores)))


def test_a_kept_mask_is_cut_and_stretched_and_no_parameter() -> None:
    kept, scores = attention.StoredMask(8), made(2, 3, 5, 5)
    assert list(kept.parameters()) == []
    assert {name: t.shape for name, t in kept.state_dict().items()} == {"bias": (1, 1, 8, 8)}
    for b, h in np.ndindex(2, 3):
        assert_allclose(kept(torch.tensor(scores))[b, h], hidden(scores[b, h]))
    shapes = [size for _, size in attention.stored_mask_steps(8, 2, 12, 4)]
    one, all_heads = "(1, 1, 4, 4)", "(2, 12, 4, 4)"
    assert shapes == ["(8, 8)", "(1, 1, 8, 8)", one, all_heads, all_heads]


@pytest.mark.parametrize("seed", [0, 3])
def test_three_blocks_run_on_the_same_words(seed: int) -> None:
    x = made(6, 3)
    found = mlp.run_blocks(x, seed)
    tables = {
        name: [t.detach().double().numpy() for t in block.parameters()]
        for name, block in mlp.three_blocks(3, seed).items()
    }
    for name, curve in {"GELU": gelu_tanh, "ReLU": lambda x: np.maximum(x, 0)}.items():
        widen, back = tables[name]
        assert_allclose(found[name].inside, curve(x @ widen.T), atol=1e-5)
        assert_allclose(found[name].output, curve(x @ widen.T) @ back.T, atol=1e-5)
    gate, up, down = tables["SwiGLU"]
    opened = x @ gate.T / (1 + np.exp(-x @ gate.T)) * (x @ up.T)
    assert_allclose(found["SwiGLU"].inside, opened, atol=1e-5)
    assert_allclose(found["SwiGLU"].output, opened @ down.T, atol=1e-5)
    for one, other in zip(tables["GELU"], tables["ReLU"], strict=True):
        assert_allclose(one, other)
    assert {ran.n_parameters for ran in found.values()} == {2 * 3 * 12} == {3 * 3 * 8}


@pytest.mark.parametrize("residual", [False, True])
def test_the_gradient_at_each_layer_by_finite_differences(residual: bool) -> None:
    """The change of the end, along its gradient, for a small change of each layer's numbers."""
    depth, C = 3, 4
    found = lane_gradients(depth, residual, C=C)
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
        change: np.ndarray = back @ gelu_tanh(widen @ x)
        return x + change if residual else change

    def run(x: np.ndarray, since: int) -> np.ndarray:
        for n in range(since, depth):
            x = run_one(x, n)
        return x

    stream, step = start, 1e-6
    for n in range(depth + 1):
        ways = [(run(stream + d, n) - run(stream - d, n)) @ end for d in step * np.eye(C)]
        size = np.sqrt(np.mean((np.array(ways) / (2 * step)) ** 2))
        assert found[n] == pytest.approx(size / np.sqrt(np.mean(end**2)), rel=1e-3)
        if n < depth:
            stream = run_one(stream, n)


@pytest.mark.parametrize("depth", [6, 12, 24, 48])
def test_without_the_residual_next_to_nothing_arrives(depth: int) -> None:
    assert lane_gradients(depth, residual=True)[0] > 1
    assert lane_gradients(depth, residual=False)[0] < 10 ** (-depth / 6)
