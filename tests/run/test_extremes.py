"""Softmax stays exact on long inputs, for scores of 10,000 and weights in half precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.nonfinite import first_not_finite
from tests.checkpoints import weights_of, write_checkpoint


@pytest.fixture(scope="module", params=[torch.float32, torch.float16], ids=["32 bits", "16 bits"])
def extreme_checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A checkpoint of 1,024 positions whose scaled scores reach beyond ±10,000."""
    folder = tmp_path_factory.mktemp("extreme") / "model"
    write_checkpoint(folder, n_positions=1024, n_layer=2, n_head=2, dtype=request.param)
    with weights_of(folder) as weights:
        for layer in (0, 1):
            c_attn = weights[f"transformer.h.{layer}.attn.c_attn.weight"]
            c_attn[:, :48] *= 120  # Q and K; V stays
        assert all(weight.isfinite().all() for weight in weights.values())
    return folder


@pytest.mark.slow
def test_softmax_of_extreme_scores(extreme_checkpoint: Path, subtests: pytest.Subtests) -> None:
    for explicit in (True, False):
        for causal in (True, False):
            with subtests.test(explicit=explicit, causal=causal):
                model = gpt2viz.load_model(extreme_checkpoint)
                ids = np.random.default_rng(0).integers(0, 400, 1024).tolist()
                trace = gpt2viz.trace(model, ids, causal=causal, explicit=explicit)
                assert first_not_finite(trace) is None
                for layer in (0, 1):
                    scores = trace.stage("scaled_scores", layer)
                    assert scores.max() > 1e4
                    assert scores.min() < -1e4
                    weights = trace.stage("weights", layer).astype(np.float64)
                    assert np.isfinite(weights).all()
                    assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=1e-6)
                    q, k = (
                        trace.stage(key, layer).astype(np.float64)
                        for key in gpt2viz.HEAD_STAGES[:2]
                    )
                    exact = q @ k.swapaxes(-1, -2) / np.sqrt(12)
                    assert_allclose(scores, exact, rtol=0, atol=1e-6 * np.abs(exact).max())
                    if causal:
                        assert not np.triu(weights, 1).any()
                assert_allclose(trace.next_token_probabilities.sum(), 1, atol=1e-5)
