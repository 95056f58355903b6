"""Attention as geometry, held against angles, lengths and sums in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpt2viz.textbook import attention
from tests.textbook.oracle import softmax

RANDOM = np.random.default_rng(5)


def test_a_score_is_the_querys_length_times_how_far_out_the_keys_shadow_lies() -> None:
    q, k = RANDOM.normal(size=2), RANDOM.normal(size=(7, 2))
    found = attention.shadows(q, k).double().numpy()
    turned = np.arctan2(k[:, 1], k[:, 0]) - np.arctan2(q[1], q[0])
    far = np.linalg.norm(k, axis=1) * np.cos(turned)  # by the angle between them
    assert (far < 0).any()
    assert (far > 0).any()
    assert_allclose(found, far[:, None] * q / np.linalg.norm(q), atol=1e-6)
    assert_allclose(k @ q, np.linalg.norm(q) * far, atol=1e-12)
    assert_allclose((k - found) @ q, 0, atol=1e-6)  # the dashed line stands upright on the query's


def test_without_a_query_there_is_no_line_to_fall_on() -> None:
    assert_allclose(attention.shadows([0, 0], [[1, 2], [3, 4]]), np.zeros((2, 2)))


def test_pieces_stand_tip_to_tail_and_end_at_the_mixture() -> None:
    weights, v = softmax(RANDOM.normal(size=5)), RANDOM.normal(size=(5, 2))
    found = attention.tip_to_tail(weights, v)
    assert_allclose(found[0], [0, 0])
    assert_allclose(np.diff(found, axis=0), weights[:, None] * v, atol=1e-6)
    assert_allclose(found[-1], weights @ v, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("temperature", [0.05, 1, 10])
def test_the_temperature_divides_what_softmax_is_given(temperature: float, causal: bool) -> None:
    q, k, v = RANDOM.normal(size=(3, 4, 2))
    found = attention.attend(q, k, v, causal=causal, temperature=temperature)
    scores = q @ k.T / np.sqrt(2)
    masked = np.where(np.tri(4, dtype=bool), scores, -np.inf) if causal else scores
    assert_allclose(found.masked_scores, masked, atol=1e-6)
    assert_allclose(found.weights, softmax(masked / temperature), atol=1e-5)
    assert_allclose(found.output, softmax(masked / temperature) @ v, atol=1e-5)
