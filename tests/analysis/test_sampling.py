"""The effect of sampling settings on a distribution, by transformers and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from gpt2viz.analysis.sampling import divergence, entropy, sampling_distribution, softmax

LOGITS = np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])).astype(np.float32)


def test_greedy_settings_give_one_token() -> None:
    for settings in ({"temperature": 0}, {"temperature": 1e-320}, {"top_p": 0.01}):
        assert_allclose(sampling_distribution(LOGITS, **settings), [1, 0, 0, 0, 0])


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.3, 0.8, 1.0, 1.7]),
    st.sampled_from([1, 2, 5, 30]),
    st.sampled_from([0.1, 0.5, 0.9, 0.99, 1.0]),
)
def test_equals_transformers_warpers(seed: int, temperature: float, k: int, p: float) -> None:
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = np.random.default_rng(seed).normal(0, 3, 30).astype(np.float32)
    theirs = torch.from_numpy(logits)[None].double()
    for warp in (TemperatureLogitsWarper(temperature), TopKLogitsWarper(k), TopPLogitsWarper(p)):
        theirs = warp(None, theirs)
    top_k = None if k == 30 else k  # all of them
    ours = sampling_distribution(logits, temperature=temperature, top_k=top_k, top_p=p)
    assert_allclose(ours, theirs.softmax(-1)[0], atol=1e-6)


def test_large_logits_stay_finite() -> None:
    assert_allclose(softmax(np.array([1e4, -1e4, 1e4], np.float32)), [0.5, 0, 0.5])


def test_entropy_and_divergence_in_bits() -> None:
    assert entropy(softmax(np.zeros(8))) == pytest.approx(3)
    assert f"{entropy(np.array([1.0, 0.0])):.2f} bits" == "0.00 bits"  # and not −0
    assert divergence(LOGITS, LOGITS) == pytest.approx(0, abs=1e-12)
    old, new = np.log([0.5, 0.5]), np.log([0.25, 0.75])
    assert divergence(new, old) == pytest.approx(0.5 * np.log2(2) + 0.5 * np.log2(2 / 3))
