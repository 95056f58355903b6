"""The Textbook's statements, checked with NumPy: a test for each one or two."""

from __future__ import annotations

import itertools
from math import erf
from typing import Any

import numpy as np
import pytest
import torch

from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import attention, mlp, residual
from gpt2viz.textbook.examples import claims
from gpt2viz.textbook.tensors import normal, randomize
from tests.bundled import ids_of
from tests.numpy_gpt2 import read, reference, softmax
from tests.textbook.oracle import JOURNEY, RAW, SCALED, order_difference

X = np.array(attention.SENTENCE_X, np.float64)


def last_probabilities(words: list[str], causal: bool) -> np.ndarray:
    """Next-token probabilities of the bundled model without positions, by NumPy."""
    of, ids = read(BUNDLED), ids_of("".join(words))
    assert len(ids) == len(words)
    no_positions = of._replace(w=of.w | {"wpe.weight": 0 * of.w["wpe.weight"]})
    result: np.ndarray = reference(no_positions, ids, causal)["next_token_probabilities"]
    return result


def test_without_positions_only_the_mask_reveals_the_order() -> None:
    """Swapping words before the last one changes the prediction only with the mask."""
    first, second = ["The", " dog", " saw", " the", " man"], ["The", " man", " saw", " the", " dog"]
    first, second = [*first, " and"], [*second, " and"]
    masked, free = (
        np.abs(last_probabilities(first, causal) - last_probabilities(second, causal)).max()
        for causal in (True, False)
    )
    assert masked > 0.01
    assert free < 1e-5


def test_mask_distinguishes_two_orders_in_the_example() -> None:
    no_positions = np.zeros((3, 2))
    assert order_difference(no_positions, causal=False) < 1e-12
    assert order_difference(no_positions, causal=True) == pytest.approx(0.27, abs=0.005)


def test_no_projections_give_the_printed_scores() -> None:
    """x of "A" is an eleventh of two others' sum, and so are its scores, for any W_Q and W_K."""
    np.testing.assert_allclose(11 * X[0], X[1] + X[2])
    rng = np.random.default_rng(0)
    for _ in range(20):
        w_q, w_k = rng.normal(size=(2, 2, 2))
        scores = (X @ w_q.T) @ (X @ w_k.T).T
        np.testing.assert_allclose(11 * scores[0], scores[1] + scores[2], atol=1e-12)
    (raw,) = (claim for claim in claims("E5") if claim.what == "raw scores")
    eleventh = (RAW[1] + RAW[2]) / 11
    assert f"{eleventh[1]:.4f} for “crane”, not {RAW[0, 1]:.4f}" in raw.why
    # nor are rows multiples of one another: the ratios of two rows differ beyond rounding
    low, high = (RAW - 5e-5)[1] / (RAW + 5e-5)[0], (RAW + 5e-5)[1] / (RAW - 5e-5)[0]
    assert low.max() > high.min()
    left = np.kron(X, X)  # scores = x A xᵀ for some A (2, 2): the best one in least squares
    best = left @ np.linalg.lstsq(left, RAW.ravel(), rcond=None)[0]
    assert np.abs(best - RAW.ravel()).max() == pytest.approx(0.25, abs=0.005)


def smallest_error(left: np.ndarray, right: np.ndarray) -> float:
    """The smallest maximum of |left w − right| over all w (2,), which three rows determine.

    For three rows there is y with yᵀ left = 0, and the error is |y·right| / Σ|y| (duality).
    """
    results = []
    for three in map(list, itertools.combinations(range(len(left)), 3)):
        y = np.cross(*left[three].T)
        results.append(abs(y @ right[three]) / np.abs(y).sum())
    return max(results)


def test_no_values_give_the_printed_output() -> None:
    output = next(claim for claim in claims("E5") if claim.what == "output")
    printed = np.array(output.printed.split(), float).reshape(4, 2)
    reached = softmax(RAW / np.sqrt(2)) @ X
    error = max(smallest_error(reached, column) for column in printed.T)
    assert error > 50 * 5e-5
    assert f"off by {error:.4f} somewhere" in " ".join(output.why.split())


def test_three_printed_scaled_scores_are_off() -> None:
    scaled = next(claim for claim in claims("E7") if "scaled scores" in claim.what)
    right = RAW / np.sqrt(2)
    off = np.abs(SCALED - right) > 5e-5 + 1e-9
    assert off.sum() == 3
    for printed, computed in zip(SCALED[off], right[off], strict=True):
        assert f"{printed:.4f}" in scaled.why
        assert f"{computed:.4f}" in scaled.why


def test_printed_rows_of_weights_differ_as_stated() -> None:
    rows = [c for c in claims("E7") if "before masking" in c.what]
    assert [c.what.split("“")[1].split("”")[0] for c in rows] == ["A", "crane", "ate"]
    for claim, row in zip(rows, softmax(SCALED), strict=False):
        assert sum(map(float, claim.printed.split())) == pytest.approx(1)  # as the reason states
        assert 1 - sum(row[:3]) > 0.2
    first = next(c for c in claims("E19") if "first gives them" in c.what)
    assert first.verdict == "differs"
    assert f"{sum(map(float, first.printed.split())):.2f}" in first.why
    assert f"{softmax(JOURNEY @ JOURNEY.T)[1, 3]:.4f} rounds to 0.12" in first.why


@pytest.mark.slow
@pytest.mark.parametrize("hs", [32, 128])
def test_spread_scores_make_softmax_sharp_on_average(hs: int) -> None:
    rng = np.random.default_rng(hs)
    queries, keys = rng.normal(size=(4_000, 1, hs)), rng.normal(size=(4_000, 8, hs))
    scores = (keys * queries).sum(axis=-1)
    result = attention.random_scores(hs)
    assert result.shape == (attention.SCALE_DRAWS, 8)
    for divisor in (1, np.sqrt(hs)):
        largest = softmax(scores / divisor).max(axis=1)
        spread = attention.largest_weight(result, float(divisor))
        error = largest.std() / np.sqrt(attention.SCALE_DRAWS)
        assert spread.mean == pytest.approx(largest.mean(), abs=4 * error)
        assert [spread.low, spread.high] == pytest.approx(
            np.quantile(largest, [0.1, 0.9]), abs=0.07
        )


def test_mean_largest_weight_grows_with_hs() -> None:
    means = [
        attention.largest_weight(attention.random_scores(hs), 1).mean
        for hs in (2, 8, 32, 64, 128, 512)
    ]
    assert means == sorted(means)
    assert means[2:5] == pytest.approx([0.83, 0.88, 0.91], abs=0.01)
    single = [float(attention.sharpness(attention.random_scores(hs), 1)[0, 0]) for hs in (32, 128)]
    assert single[0] != pytest.approx(means[2], abs=0.05)  # so a single draw isn't shown


def backward(y: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """A gradient through (y − mean) / √(var + ε), by the derivative written out."""
    spread = np.sqrt(y.var() + residual.EPSILON)
    z = (y - y.mean()) / spread
    return (gradient - gradient.mean() - z * (gradient * z).mean()) / spread


@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("order", ["pre-norm", "post-norm"])
def test_gradients_of_pre_and_post_norm(order: str, straight: bool) -> None:
    C, depth, before = 32, 24, order == "pre-norm"
    kind: Any = residual.PreNorm if before else residual.PostNorm
    tables = [
        randomize(kind(C, torch.nn.Linear(C, C)), 1 + n).part.weight.detach().double().numpy()
        for n in range(depth)
    ]
    x, inside = normal(C, seed=0).double().numpy(), []
    for w in tables:
        y = x if before else x + w @ x
        z = (y - y.mean()) / np.sqrt(y.var() + residual.EPSILON)
        x = x + w @ z if before else z
        inside.append(y)
    gradient = end = normal(C, seed=depth + 1).double().numpy()
    expected = [1.0]
    for w, y in zip(reversed(tables), reversed(inside), strict=True):
        if before:
            gradient = gradient + (0 if straight else backward(y, w.T @ gradient))
        else:
            gradient = backward(y, gradient)
            gradient = gradient + (0 if straight else w.T @ gradient)
        expected.insert(0, float(np.linalg.norm(gradient) / np.linalg.norm(end)))
    result = residual.gradients(order, depth, straight=straight)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-6)


def test_journey_is_longer_than_starts_and_nearly_parallel() -> None:
    journey, starts = JOURNEY[1], JOURNEY[2]
    lengths = np.linalg.norm(journey), np.linalg.norm(starts)
    assert f"{journey @ starts / np.prod(lengths):.4f}" == "0.9997"
    assert f"{lengths[0] / lengths[1] - 1:.1%}" == "1.3%"
    assert journey @ starts > starts @ starts
    # and no longer vector "wins every dot product": this query prefers the shorter one
    query = np.array([1.0, -1.0, 0.0])
    assert starts @ query > journey @ query


def test_stated_properties_of_gelu_and_swiglu() -> None:
    x = np.linspace(-6, 6, 24_001)
    exact = x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2
    assert np.abs(np.asarray(mlp.gelu_tanh(torch.tensor(x))) - exact).max() < 0.0005
    assert x[exact.argmin()] == pytest.approx(-0.75, abs=0.005)
    assert exact.min() == pytest.approx(-0.170, abs=5e-4)
    assert 3 * 768 * mlp.swiglu_width(768) == 2 * 768 * 4 * 768
