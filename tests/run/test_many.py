"""Texts that run in a batch give the same traces as one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.run import forward, tracer

#: Of 4, 5, 4, 1 and 4 tokens for the tiny model, and one of them as ids.
TEXTS = [[5, 3, 8, 9], [1, 2, 3, 4, 5], "A crane ate fish", [7], [9, 9, 3, 5], [1, 1, 2, 3, 5]]
EDITS = "off:0.1,mean:1.2,scale:2.0:3,mlp:1,forbid:3:1"


@pytest.mark.slow
def test_batched_traces_equal_single_traces(tiny: gpt2viz.Model, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, bool]] = [("", True), ("", False), (EDITS, True)]
    for explicit, (edits, causal) in product((None, False), cases):
        with subtests.test(explicit=explicit, edits=edits, causal=causal):
            texts: list[Any] = [text for text in TEXTS if not edits or len(text) > 3]
            options: dict[str, Any] = {"causal": causal, "explicit": explicit, "edits": edits}
            result = gpt2viz.trace_many(tiny, iter(texts), **options)
            assert len(result) == len(texts)
            for text, run in zip(texts, result, strict=True):
                alone = gpt2viz.trace(tiny, text, **options)
                assert (run.key, run.text, run.tokens) == (alone.key, alone.text, alone.tokens)
                assert run.tensors == alone.tensors
                assert run.captured.keys() == alone.captured.keys()
                for key, array in alone.captured.items():
                    assert_allclose(run.captured[key], array, rtol=1e-5, atol=1e-5)
                assert_allclose(run.logits, alone.logits, rtol=1e-5, atol=1e-5)
                probabilities = alone.next_token_probabilities
                assert_allclose(run.next_token_probabilities, probabilities, atol=1e-6)
                weights = run.all_layers("weights")
                assert_allclose(weights, alone.all_layers("weights"), rtol=1e-5, atol=1e-6)


def test_texts_of_equal_length_run_together(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []
    run = forward.run_texts

    def record_size(network: object, ids: list[list[int]], *rest: object) -> object:
        sizes.append((len(ids), len(ids[0])))
        return run(network, ids, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(tracer, "run_texts", record_size)
    texts = [[n, n + 1] for n in range(7)] + [[1, 2, 3]]
    gpt2viz.trace_many(tiny, texts)
    assert sizes == [(7, 2), (1, 3)]
    sizes.clear()
    monkeypatch.setattr(tracer, "TOGETHER", 8)
    gpt2viz.trace_many(tiny, texts)
    assert sizes == [(4, 2), (3, 2), (1, 3)]
    assert gpt2viz.trace_many(tiny, []) == []


def test_bad_texts_are_refused_before_any_run(tiny: gpt2viz.Model) -> None:
    patch = gpt2viz.parse_edits("patch:residual_in:1:0")
    with pytest.raises(gpt2viz.EditError, match=r"takes from another text: use gpt2viz\.trace"):
        gpt2viz.trace_many(tiny, ["A crane"], edits=patch)
    with pytest.raises(gpt2viz.TextError, match="There is no text yet"):
        gpt2viz.trace_many(tiny, ["A crane", ""])
    with pytest.raises(gpt2viz.ContextError):
        gpt2viz.trace_many(tiny, [[1] * 25])
    with pytest.raises(gpt2viz.EditError):
        gpt2viz.trace_many(tiny, [[1, 2, 3], [1]], edits=gpt2viz.parse_edits("forbid:2:1"))


def test_traces_of_a_batch_share_no_memory(tiny: gpt2viz.Model) -> None:
    first, second = gpt2viz.trace_many(tiny, [[1, 2, 3], [4, 5, 6]])
    for key, array in first.captured.items():
        if key[0] != "position_embedding":
            assert not np.shares_memory(array, second.captured[key])
