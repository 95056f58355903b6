"""The targets of a bundled model: figures compared with loops, and the choice of the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpt2viz
from gpt2viz.training.card import missed_targets, targets_text
from gpt2viz.training.targets import (
    FIRST_TEXT,
    TARGETS,
    best_of,
    first_view,
    mean_largest,
    most_alike,
    saturated_share,
)
from tests.numpy_gpt2 import softmax


def random_weights(*sizes: int) -> np.ndarray:
    """Causal attention weights (…, T, T), fairly sharp."""
    scores = 6 * np.random.default_rng(0).normal(size=sizes)
    return softmax(np.where(np.tri(sizes[-1]), scores, -np.inf)).astype(np.float32)


def test_figures_equal_loops() -> None:
    weights = random_weights(3, 2, 9, 9)  # (B, nh, T, T)
    rows = [weights[b, h, t, : t + 1] for b in range(3) for h in range(2) for t in range(1, 9)]
    assert mean_largest(weights) == pytest.approx(np.mean([row.max() for row in rows]))
    printed = [f"{weight:.2f}" in ("0.00", "1.00") for row in rows for weight in row]
    assert saturated_share(weights) == pytest.approx(np.mean(printed))
    heads = [weights[:, h, 1:].ravel().astype(float) for h in range(2)]
    cosine = heads[0] @ heads[1] / np.linalg.norm(heads[0]) / np.linalg.norm(heads[1])
    assert most_alike([weights]) == pytest.approx(cosine)
    same = [random_weights(3, 2, 9, 9), weights[:, 1:]]  # a copy of a head of the first layer
    assert most_alike(same) == pytest.approx(1)


def edge_figures() -> dict[str, Any]:
    """Figures that just reach every target."""
    heads = {"previous token": 0.8, "induction": 0.6, "first token": 0.5, "duplicate token": 0.5}
    return {
        "bits per byte": 1.42,
        "loss by position": {"1–127": 4.0, "128–255": 4.0},
        "repetition": {n: {"second": 0.5} for n in ("16", "32", "64")},
        "heads": {name: [[score]] for name, score in heads.items()} | {"same token": [[0.0]]},
        "weights": {"alike": 0.95, "largest in layer 0": 0.8, "saturated in layer 0": 0.4},
        "first view": {"tokens": 4, "largest": 0.8},
        "bytes": 16e6,
    }


def test_missed_targets_are_listed() -> None:
    edge = edge_figures()
    assert all(target.is_reached(edge) for target in TARGETS)
    worse = {
        **edge,
        "bits per byte": 1.5,
        "weights": edge["weights"] | {"alike": 0.96},
        "heads": {n: [[0.1]] for n in edge["heads"]},
    }
    text = missed_targets(worse)
    assert len(text) == 6
    assert text[0] == "It misses a target: bits per byte of held-out text 1.50 (at most 1.42)."
    assert missed_targets(edge) == []
    printed = targets_text({"one": edge, "other": worse})
    assert "| bits per byte of held-out text | at most 1.42 | 1.420 | 1.500 ✗ |" in printed
    assert printed.count("✗") == 6


def test_best_reaches_most_targets_and_then_predicts_best() -> None:
    edge = edge_figures()
    better = edge | {"bits per byte": 1.3}
    missing = better | {"weights": edge["weights"] | {"alike": 1.0}}
    assert best_of({"edge": edge, "missing": missing, "better": better}) == "better"
    assert best_of({"missing": missing, "edge": edge}) == "edge"


def test_first_view_is_of_one_head(tiny: gpt2viz.Model) -> None:
    opened, run = first_view(tiny), gpt2viz.trace(tiny, FIRST_TEXT)
    assert opened["tokens"] == len(run.token_ids)
    every = [run.stage("weights", n)[0, h, 1:].max(-1).mean() for n in range(3) for h in range(4)]
    assert min(abs(opened["largest"] - mean) for mean in every) < 1e-6
