"""An RNN and attention in tiles, held against NumPy in double precision and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from gpt2viz.textbook import after_gpt2, rnn
from tests.textbook.oracle import hidden, softmax


def made(*size: int) -> np.ndarray:
    return np.random.default_rng(sum(size)).normal(0, 1, size)


def states(x: np.ndarray, w_x: np.ndarray, w_h: np.ndarray) -> np.ndarray:
    found = [np.zeros(x.shape[1])]
    for word in x:
        found.append(np.tanh(w_x @ word + w_h @ found[-1]))
    return np.array(found[1:])


@pytest.mark.parametrize(("T", "C"), [(1, 2), (4, 2), (9, 5)])
def test_each_state_is_made_of_the_word_and_the_state_before(T: int, C: int) -> None:
    x, w_x, w_h = made(T, C), made(C, C), made(C, C + 1)[:, 1:]
    assert_allclose(rnn.read(x, w_x, w_h), states(x, w_x, w_h), atol=1e-5)


def drawn(*size: int, seed: int) -> np.ndarray:
    numbers = torch.randn(*size, generator=torch.Generator().manual_seed(seed))
    return numbers.double().numpy()


def test_how_far_a_gradient_gets_by_finite_differences() -> None:
    T, C, step = 4, 16, 1e-5
    found = rnn.reach(T)
    sizes = {"RNN": np.zeros(T), "attention": np.zeros(T)}
    for seed in range(rnn.DRAWS):
        x = drawn(T, C, seed=1000 + seed)
        w_x, w_h = drawn(2, C, C, seed=seed) / C**0.5
        w_q, w_k, w_v = drawn(3, C, C, seed=seed) / C**0.5

        def last(x: np.ndarray, ends: tuple[np.ndarray, ...], name: str) -> np.ndarray:
            if name == "RNN":
                return states(x, *ends)[-1]
            q, k, v = (x @ w.T for w in ends)
            return (softmax(hidden(q @ k.T / C**0.5)) @ v)[-1]

        for name, ends in (("RNN", (w_x, w_h)), ("attention", (w_q, w_k, w_v))):
            for t in range(T):
                total = 0.0
                for c in range(C):
                    by = np.zeros((T, C))
                    by[t, c] = step
                    slope = (last(x + by, ends, name) - last(x - by, ends, name)) / (2 * step)
                    total += (slope**2).sum()
                sizes[name][t] += np.sqrt(total) / rnn.DRAWS
    for name, expected in sizes.items():
        assert_allclose(found[name], expected, rtol=1e-3)


def test_in_an_rnn_the_gradient_shrinks_with_the_way_and_in_attention_it_does_not() -> None:
    found = {name: np.array(sizes) for name, sizes in rnn.reach(16).items()}
    assert found["RNN"][0] < found["RNN"][-1] / 20
    assert found["attention"][0] > found["attention"][5:-1].mean() / 2


@pytest.mark.parametrize(("T", "size"), [(1, 4), (5, 2), (6, 3), (9, 1), (7, 7), (8, 99)])
def test_tiles_give_the_outputs_of_the_whole_table(T: int, size: int) -> None:
    found = after_gpt2.run_three(T, size, nh=2, hs=3, seed=5)
    q, k, v = drawn(3, 2, T, 3, seed=5)
    for head in range(2):
        weights = softmax(hidden(q[head] @ k[head].T / np.sqrt(3)))
        for one in found.values():
            assert_allclose(one.output[head], weights @ v[head], atol=2e-6)
    assert found["explicit"].largest == 4 * 2 * T * T
    assert found["in tiles"].largest == 4 * 2 * T * min(T, size)
    assert found["fused"].largest is None
    assert all(one.seconds > 0 for one in found.values())


def test_scores_that_would_overflow_are_summed_safely() -> None:
    q, k, v = (
        torch.tensor(t, dtype=torch.float32) for t in (*200 * made(2, 1, 6, 4), made(1, 6, 4))
    )
    output, _ = after_gpt2.tiled(q, k, v, 2)
    weights = softmax(hidden((q[0].double() @ k[0].double().T).numpy() / 2))
    assert_allclose(output[0], weights @ v[0].double().numpy(), atol=1e-4)
