"""Parts that are newer or older than GPT-2 equal NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from gpt2viz.textbook import after_gpt2, mlp, residual, rnn
from gpt2viz.textbook.heads import ShapeError
from tests.numpy_gpt2 import softmax
from tests.textbook.oracle import attention, draw, hide


@pytest.mark.parametrize(("T", "C", "hs"), [(1, 2, 2), (4, 2, 2), (7, 5, 3)])
def test_cache_changes_the_cost_but_not_the_output(T: int, C: int, hs: int) -> None:
    x, tables = draw(T, C), draw(3, hs, C)
    q, k, v = (x @ w.T for w in tables)
    again, cached = after_gpt2.write_uncached(x, *tables), after_gpt2.write_cached(x, *tables)
    for result in (again, cached):
        assert_allclose(result.output, attention(q, k, v)[1], atol=1e-5)
        assert_allclose(result.keys, k, atol=1e-5)
        assert_allclose(result.values, v, atol=1e-5)
    step = np.arange(1, T + 1)
    assert again.cost == (3 * step * C * hs + 2 * step**2 * hs).tolist()
    assert cached.cost == (3 * C * hs + 2 * step * hs).tolist()
    assert after_gpt2.cache_costs(T, C, hs) == (again.cost, cached.cost)


def test_counter_counts_matrix_products_while_open() -> None:
    a, b = torch.ones(2, 3), torch.ones(3, 5)
    _ = a @ b
    with after_gpt2.Counter() as counter:
        _ = a @ b
        _ = a * a + a
        _ = torch.softmax(a, dim=-1)
    _ = a @ b
    assert counter.count == 2 * 3 * 5


def test_rms_norm_step_by_step() -> None:
    x, gain = draw(9) + 3, draw(9, scale=2)
    result, size = residual.rms_norm(x, gain), np.sqrt((x**2).mean() + 1e-5)
    assert_allclose(result.size, size, rtol=1e-6)
    assert_allclose(result.normed, x / size, rtol=1e-5)
    assert_allclose(result.output, x / size * gain, atol=1e-5)


def complex_pairs(x: np.ndarray) -> np.ndarray:
    return x[..., 0::2] + 1j * x[..., 1::2]


@pytest.mark.parametrize("hs", [2, 4, 10])
def test_rotation_is_complex_multiplication(hs: int) -> None:
    x, positions = draw(3, hs).astype(np.float32), [0, 7, 100_000]
    speeds = 10_000.0 ** (-np.arange(0, hs, 2) / hs)
    turned = complex_pairs(x.astype(float)) * np.exp(1j * np.outer(positions, speeds))
    result = after_gpt2.rotate(x, positions).numpy()
    assert_allclose(complex_pairs(result), turned, atol=1e-9)
    assert_allclose(np.linalg.norm(result, axis=1), np.linalg.norm(x, axis=1), rtol=1e-6)


def test_rotary_score_depends_on_the_distance_alone() -> None:
    q, k = draw(2, 6, scale=3).astype(np.float32)
    distances = np.arange(40)
    speeds = 10_000.0 ** (-np.arange(0, 6, 2) / 6)
    pairs = complex_pairs(q.astype(float)) * complex_pairs(k.astype(float)).conj()
    expected = (pairs * np.exp(1j * np.outer(distances, speeds))).real.sum(axis=1)
    assert_allclose(after_gpt2.score_by_distance(q, k, 39), expected, atol=1e-9)
    for shift in (0, 1, 100, 10_000):
        results = [after_gpt2.rotary_score(q, k, shift + int(d), shift) for d in distances]
        assert_allclose(results, expected, atol=1e-7)


def test_odd_size_cannot_be_rotated() -> None:
    with pytest.raises(ShapeError, match="3 numbers don't make pairs"):
        after_gpt2.rotate(draw(2, 3), [0, 1])


@pytest.mark.parametrize("n_kv", [1, 2, 4])
def test_heads_of_a_group_share_keys_and_values(n_kv: int) -> None:
    nh, hs, C, T = 4, 3, 12, 5
    x, w_q, w_k, w_v = draw(T, C), draw(nh, hs, C), draw(n_kv, hs, C), draw(n_kv, hs, C) / 2
    steps, group = after_gpt2.share(x, w_q, w_k, w_v)
    assert group == [n // (nh // n_kv) for n in range(nh)]
    for n, g in enumerate(group):
        weights, output = attention(x @ w_q[n].T, x @ w_k[g].T, x @ w_v[g].T)
        assert_allclose(steps.weights[n], weights, atol=1e-5)
        assert_allclose(steps.output[n], output, atol=1e-5)


def test_one_query_reads_all_keys_or_all_but_the_first() -> None:
    scores, values = draw(4), draw(4, 2)
    for first in (0, 1):
        weights, output = after_gpt2.attend_once(scores, values, forget_first=bool(first))
        expected = np.pad(softmax(scores[first:]), (first, 0))
        assert_allclose(weights, expected, atol=1e-6)
        assert_allclose(output, expected @ values, atol=1e-6)


def test_largest_table_numbers_give_finite_results() -> None:
    """Tables take numbers from −100 to 100: nothing made of them is NaN or infinite."""
    big = np.array([[100.0, -100], [-100, 100], [100, 100], [-100, -100]])
    square = big[:2]
    writing = after_gpt2.write_cached(big, square, square, square)
    assert_allclose(writing.output, after_gpt2.write_uncached(big, square, square, square).output)
    gate = mlp.walk_swiglu(big[0], big[:3], big[:3], big[:3].T)
    steps, _ = after_gpt2.share(big, big[:, None], big[:2, None], big[:2, None])
    out = after_gpt2.attend_once([100, -100, 100, 0], big)
    for result in (writing.output, *gate, steps.output, *out, *residual.rms_norm(big[0], big[1])):
        assert torch.isfinite(result).all()
    assert np.isfinite(after_gpt2.score_by_distance([100.0] * 4, [-100.0] * 4, 64)).all()
    zero = residual.rms_norm(np.zeros(4), np.ones(4))
    assert not zero.output.any()  # ε saves the division


def states(x: np.ndarray, w_x: np.ndarray, w_h: np.ndarray) -> np.ndarray:
    results = [np.zeros(x.shape[1])]
    for word in x:
        results.append(np.tanh(w_x @ word + w_h @ results[-1]))
    return np.array(results[1:])


def randn(*size: int, seed: int) -> np.ndarray:
    numbers = torch.randn(*size, generator=torch.Generator().manual_seed(seed))
    return numbers.double().numpy()


def test_reach_of_gradients_equals_finite_differences() -> None:
    T, C, step = 4, 16, 1e-5
    result = rnn.reach(T)
    sizes = {"RNN": np.zeros(T), "attention": np.zeros(T)}
    for seed in range(rnn.DRAWS):
        x = randn(T, C, seed=1000 + seed)
        w_x, w_h = randn(2, C, C, seed=seed) / C**0.5
        w_q, w_k, w_v = randn(3, C, C, seed=seed) / C**0.5

        def last(x: np.ndarray, ends: tuple[np.ndarray, ...], name: str) -> np.ndarray:
            if name == "RNN":
                return states(x, *ends)[-1]
            return attention(*(x @ w.T for w in ends))[1][-1]

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
        assert_allclose(result[name], expected, rtol=1e-3)


@pytest.mark.parametrize(("T", "size"), [(1, 4), (5, 2), (6, 3), (9, 1), (7, 7), (8, 99)])
def test_tiled_attention_equals_the_full_table(T: int, size: int) -> None:
    result = after_gpt2.run_three(T, size, nh=2, hs=3, seed=5)
    q, k, v = randn(3, 2, T, 3, seed=5)
    for head in range(2):
        _, expected = attention(q[head], k[head], v[head])
        for run in result.values():
            assert_allclose(run.output[head], expected, atol=2e-6)
    assert result["explicit"].largest == 4 * 2 * T * T
    assert result["in tiles"].largest == 4 * 2 * T * min(T, size)
    assert result["fused"].largest is None
    assert all(run.seconds > 0 for run in result.values())


def test_tiled_attention_of_large_scores_is_finite() -> None:
    q, k, v = (
        torch.tensor(t, dtype=torch.float32) for t in (*200 * draw(2, 1, 6, 4), draw(1, 6, 4))
    )
    output, _ = after_gpt2.tiled_attention(q, k, v, 2)
    weights = softmax(hide((q[0].double() @ k[0].double().T).numpy() / 2))
    assert_allclose(output[0], weights @ v[0].double().numpy(), atol=1e-4)
