"""What is set in motion, held against NumPy, and the stream against a GPT-2 that shares no code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import attention, heads, residual
from tests.bundled import CRANE, N_LAYER
from tests.numpy_gpt2 import read, reference
from tests.textbook.oracle import softmax


@pytest.mark.parametrize("T", [1, 2, 5])
def test_the_mask_closes_row_by_row(T: int) -> None:
    scores = np.random.default_rng(T).normal(size=(T, T)) * 3
    states = attention.closing(scores)
    assert len(states) == T + 1
    for n, state in enumerate(states):
        expected = scores.copy()
        for row in range(n):
            expected[row, row + 1 :] = -np.inf
        assert_allclose(state.scores, expected, atol=1e-6)
        assert_allclose(state.weights, softmax(expected), atol=1e-6)


@pytest.mark.parametrize(("T", "C", "nh"), [(4, 12, 3), (1, 6, 6), (3, 8, 1), (4, 16, 4)])
def test_split_and_merge_move_what_numpy_moves(T: int, C: int, nh: int) -> None:
    x = np.arange(T * C).reshape(T, C)
    parts = np.stack(np.split(x, nh, axis=1))  # (nh, T, hs), cut one by one
    rows = np.stack([[parts[h, t] for h in range(nh)] for t in range(T)])
    for found, expected in zip(
        heads.split_and_merge(T, C, nh), (x, rows, parts, rows, x), strict=True
    ):
        assert_array_equal(found, expected)


def test_heads_that_cannot_share_are_refused() -> None:
    with pytest.raises(RuntimeError):
        heads.split_and_merge(2, 10, 3)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("position", [0, 3])
def test_a_token_takes_its_way_through_the_stream(position: int, causal: bool) -> None:
    model = gpt2viz.load_model()
    trace = gpt2viz.trace(model, CRANE, causal=causal)
    ids = list(trace.token_ids)
    out, (_, w) = reference(BUNDLED, ids, causal=causal), read(BUNDLED)
    token, place = w["wte.weight"][ids[position]], w["wpe.weight"][position]
    added: list[Any] = [token, place]
    for n in range(N_LAYER):
        added += [out["attention_output"][n][position], out["mlp_output"][n][position]]
    found = residual.stops(model, trace, position)
    assert [(s.key, s.layer) for s in found] == [
        ("token_embedding", None),
        ("embedding", None),
        *((key, n) for n in range(N_LAYER) for key in ("residual_mid", "residual_out")),
    ]
    streams = np.cumsum(added, axis=0)
    for n, stop in enumerate(found):
        assert_allclose(stop.added, added[n], rtol=2e-4, atol=2e-4)
        assert_allclose(stop.stream, streams[n], rtol=2e-4, atol=2e-4)
        before, now = streams[max(n - 1, 0)], streams[n]
        size = np.linalg.norm(now)
        assert_allclose(stop.cosine, before @ now / np.linalg.norm(before) / size, atol=1e-4)
        cosines = w["wte.weight"] @ now / np.linalg.norm(w["wte.weight"], axis=1) / size
        assert_allclose(stop.alike, np.sort(cosines)[::-1][:5], atol=1e-4)
        assert_allclose(cosines[stop.nearest], stop.alike, atol=1e-4)
    assert found[0].nearest[0] == ids[position]
    assert found[0].cosine == pytest.approx(1)


def test_a_token_that_is_not_there_is_refused() -> None:
    model = gpt2viz.load_model()
    with pytest.raises(IndexError):
        residual.stops(model, gpt2viz.trace(model, "A crane"), 99)
