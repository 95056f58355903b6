"""The weights of the four variants, and dropout on them, held against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpt2viz.textbook import heads
from tests.textbook.oracle import JOURNEY, hidden, softmax


def expected(name: str, x: np.ndarray, seed: int) -> np.ndarray:
    tables = {
        key: table.detach().double().numpy()
        for key, table in heads.the_variants(x.shape[1], 3, seed)[name].named_parameters()
    }
    if not tables:
        return softmax(x @ x.T)
    rows = slice(0, 1) if name == "multi-head" else slice(None)  # head 0 has one channel of three
    w_q, w_k = tables["query.weight"][rows], tables["key.weight"][rows]
    scores = (x @ w_q.T) @ (x @ w_k.T).T / np.sqrt(len(w_q))
    return softmax(scores if name == "trainable" else hidden(scores))


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("p", [0.0, 0.5, 0.9])
def test_the_weights_of_each_variant_before_and_after_dropout(p: float, seed: int) -> None:
    found = heads.drop_weights(JOURNEY, 3, seed, p, training=True, drop_seed=seed)
    assert list(found) == ["nothing learned", "trainable", "causal", "multi-head"]
    gone = []
    for name, one in found.items():
        assert_allclose(one.weights, expected(name, JOURNEY, seed), atol=1e-5)
        later = np.triu(np.ones((6, 6), bool), 1) & (name in ("causal", "multi-head"))
        assert (one.hidden.numpy() == later).all()
        kept = one.dropped.numpy() != 0
        assert_allclose(one.dropped.numpy()[kept], one.weights.numpy()[kept] / (1 - p), rtol=1e-5)
        gone.append(~kept[~later.any(axis=1)] if later.any() else ~kept)
        assert not one.dropped.numpy()[later].any()
    assert (gone[0] == gone[1]).all()  # the same places
    assert gone[0].any() == (p > 0)


def test_weights_that_are_dropped_give_the_variants_output() -> None:
    """With nothing dropped, they are what the modules themselves mix values by."""
    outputs = heads.four_variants(JOURNEY, nh=3, seed=2)
    found = heads.drop_weights(JOURNEY, 3, 2, 0.5, training=False)
    for name in ("trainable", "causal"):
        variant = heads.the_variants(3, 3, 2)[name]
        value = dict(variant.named_parameters())["value.weight"].detach().numpy()
        mixed = found[name].dropped.numpy() @ (JOURNEY @ value.T)
        assert_allclose(outputs[name], mixed, atol=1e-5)
    assert_allclose(
        outputs["nothing learned"], found["nothing learned"].dropped.numpy() @ JOURNEY, atol=1e-5
    )
