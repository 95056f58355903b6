"""Scores of heads: built by hand to be exactly 0 and 1, against loops, and TransformerLens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gpt2viz
from gpt2viz.analysis import scores
from gpt2viz.analysis.scores import (
    SCORES,
    duplicate_token,
    induction,
    previous_token,
    probe,
    weight_on,
)
from gpt2viz.run import stages
from tests.analysis.head_detector import CASES, random_head


def one_hot(*look: int) -> np.ndarray:
    weights = np.zeros((len(look), len(look)), np.float32)
    weights[np.arange(len(look)), look] = 1
    return weights


def test_missing_scores_are_nan() -> None:
    alone = np.ones((2, 1, 1), np.float32)
    for score in SCORES.values():
        assert_array_equal(score.function(alone, [3]), [np.nan, np.nan], err_msg=score.name)
    nothing_twice = np.stack([one_hot(0, 1, 2)])
    assert_array_equal(SCORES["induction"].function(nothing_twice, [1, 2, 3]), [np.nan])


def test_agrees_with_transformer_lens() -> None:
    """Their score divides by all T queries, ours by the queries that have a target."""
    stored = json.loads((Path(__file__).with_name("head_detector.json")).read_text())
    for case, theirs in zip(CASES, stored["scores"], strict=True):
        ids, weights = random_head(*case)
        for targets, name in (
            (previous_token, "previous_token_head"),
            (duplicate_token, "duplicate_token_head"),
            (induction, "induction_head"),
        ):
            target = targets(ids)
            n_queries = target.any(axis=1).sum()
            ours = weight_on(weights, target) * n_queries / len(ids)
            assert ours == pytest.approx(theirs[name], abs=1e-6), name


def test_probe_repeats_different_tokens() -> None:
    ids = probe(vocab_size=5120, n_positions=256)
    assert len(ids) == 100
    assert ids[:50] == ids[50:]
    assert len(set(ids)) == 50
    assert ids == probe(5120, 256)
    assert len(probe(5120, 24)) == 24
    assert max(probe(10, 256)) < 10


def test_scores_are_read_only_and_all_computed(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fixed in (scores.SCORES, stages.STAGE, stages.AXES):
        with pytest.raises(TypeError):
            fixed["mine"] = next(iter(fixed.values()))  # type: ignore[index]
    run = gpt2viz.trace(tiny, [1, 2, 3])
    assert list(scores.head_scores(run)) == list(scores.SCORES)
    monkeypatch.setattr(scores, "SCORES", {"entropy": scores.SCORES["entropy"]})
    assert list(scores.head_scores(run)) == ["entropy"]
