"""Value-weighted attention and rollout: worked by hand, and from transformers' own tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.attribution import (
    difference_from_run,
    rollout,
    value_weighted,
    without_first,
)
from tests.checkpoints import transformers_model, with_stages, write_checkpoint

IDS = [5, 300, 17, 17, 219]
N_HEAD, HS, C = 4, 6, 24


Pair = tuple[Any, gpt2viz.Model]


@pytest.fixture(scope="module")
def pair(tiny_folder: Path, tiny: gpt2viz.Model) -> Pair:
    return transformers_model(tiny_folder), tiny


def test_value_weighted_of_another_models_trace(pair: Pair, tmp_path: Path) -> None:
    _, ours = pair
    other = gpt2viz.load_model(write_checkpoint(tmp_path / "other"))
    with pytest.raises(ValueError, match="was made by"):
        value_weighted(other, gpt2viz.trace(ours, IDS), 0)
    with pytest.raises(IndexError):
        value_weighted(ours, gpt2viz.trace(ours, IDS), 3)


class ByHand:
    """Two layers of one head over three tokens, with weights that can be multiplied on paper."""

    tokens = ("a", "b", "c")
    edits = ()
    layers = (
        [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]],
        [[1, 0, 0], [1, 0, 0], [0.5, 0, 0.5]],
    )

    def stage(self, _key: str, layer: int) -> np.ndarray:
        return np.array(self.layers[layer], np.float32)[None, None]


def test_rollout_by_hand() -> None:
    run: Any = ByHand()
    first = [[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.0, 0.25, 0.75]]
    assert_allclose(rollout(run, 0), first)
    # layer 1 mixes these rows: b half of a's and half its own, c a quarter of a's and the rest its
    # own (the other way round, it would be [0.3125, 0.125, 0.5625])
    second = [[1.0, 0.0, 0.0], [0.625, 0.375, 0.0], [0.25, 0.1875, 0.5625]]
    assert_allclose(rollout(run, 1), second)
    with pytest.raises(IndexError):
        rollout(run, 2)


def test_rows_without_the_first_token() -> None:
    weights = np.array([[1, 0, 0], [0.9, 0.1, 0], [0.6, 0.3, 0.1]], np.float32)
    nan = np.nan
    expected = [[nan, nan, nan], [nan, 1, 0], [nan, 0.75, 0.25]]
    assert_allclose(without_first(weights), expected, rtol=1e-6)
    assert_allclose(without_first(weights[None])[0], expected, rtol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("wrong", ["one weight", "heads swapped", "transposed"])
def test_weights_that_were_not_used_show_in_the_difference(pair: Pair, wrong: str) -> None:
    """Held against transformers' own projection of the same wrong weights."""
    theirs, ours = pair
    run = gpt2viz.trace(ours, IDS)
    weights = run.stage("weights", 1).copy()
    if wrong == "one weight":
        weights[0, 2, 4, 1] += 0.01
    elif wrong == "heads swapped":
        weights = weights[:, [1, 0, 2, 3]]
    else:
        weights = weights.swapaxes(2, 3)
    spoilt = with_stages(run, {("weights", 1): weights})
    heads = torch.tensor(weights @ run.stage("v", 1)).transpose(1, 2).reshape(1, len(IDS), C)
    written = theirs.transformer.h[1].attn.c_proj(heads).numpy()
    expected = np.abs(written - run.stage("attention_output", 1)).max()
    assert expected > 1e-4
    assert difference_from_run(ours, spoilt, 1)[0] == pytest.approx(expected, rel=1e-3)
