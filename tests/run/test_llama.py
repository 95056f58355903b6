"""Llama's family against two independent oracles: transformers, and plain NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tokenizers import ByteLevelBPETokenizer

import gpt2viz
from tests.llama_checkpoints import FAMILIES, transformers_model, write_llama
from tests.numpy_llama import reference
from tests.run.test_parity import LENGTHS, TOLERANCE, random_ids


@pytest.fixture(scope="module", params=list(FAMILIES))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("llama"), **FAMILIES[request.param])


@torch.no_grad()
def test_equals_transformers(folder: Path) -> None:
    theirs, ours = transformers_model(folder), gpt2viz.load_model(folder)
    for n in LENGTHS:
        ids = random_ids(n)
        out = theirs(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
        for explicit in (True, False):
            trace = gpt2viz.trace(ours, ids, explicit=explicit)
            assert_allclose(trace.logits, out.logits, **TOLERANCE)
            assert_allclose(trace.stage("embedding"), out.hidden_states[0], **TOLERANCE)
            for layer, attention in enumerate(out.attentions):
                assert_allclose(trace.stage("weights", layer), attention, **TOLERANCE)
            for layer, hidden in enumerate(out.hidden_states[1:-1]):
                assert_allclose(trace.stage("residual_out", layer), hidden, **TOLERANCE)
    held = gpt2viz.trace(gpt2viz.from_transformers(theirs, tokenizer_of(folder)), ids)
    assert_allclose(held.logits, out.logits, **TOLERANCE)
    shared = theirs.get_input_embeddings().weight
    assert held.stage("token_embedding")[0, -1].tolist() == shared[ids[-1]].tolist()


def test_every_stage_equals_numpy(folder: Path, subtests: pytest.Subtests) -> None:
    model = gpt2viz.load_model(folder)
    for causal in (True, False):
        for explicit in (True, False):
            for n in LENGTHS:
                with subtests.test(causal=causal, explicit=explicit, n=n):
                    ids = random_ids(n)
                    trace = gpt2viz.trace(model, ids, causal, explicit=explicit)
                    expected = reference(folder, ids, causal)
                    assert_allclose(trace.logits[0], expected.pop("logits"), **TOLERANCE)
                    assert {s.key for s in trace.graph.values() if s.keep} == expected.keys()
                    for key, values in expected.items():
                        check_stage(trace, key, values)


def tokenizer_of(folder: Path) -> Any:
    """transformers' own tokenizer of a checkpoint."""
    from transformers import PreTrainedTokenizerFast

    files = (str(folder / "vocab.json"), str(folder / "merges.txt"))
    return PreTrainedTokenizerFast(tokenizer_object=ByteLevelBPETokenizer(*files)._tokenizer)


def check(actual: Any, expected: Any, key: str) -> None:
    """Equal to 1e-5 of the largest number: a score is a sum of terms that may cancel."""
    largest = max(1.0, np.abs(expected[np.isfinite(expected)]).max())
    assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * largest, err_msg=key)


def check_stage(trace: gpt2viz.Trace, key: Any, values: Any) -> None:
    """A stage of every layer, and of every head by itself."""
    stage, config = trace.graph[key], trace.config
    if not stage.per_layer:
        check(trace.stage(key)[0], values, key)
        return
    for layer, of_layer in enumerate(values):
        check(trace.stage(key, layer)[0], of_layer, key)
        for head in range(config.n_head if stage.of_head else 0):
            n = head if len(of_layer) == config.n_head else head // (config.n_head // len(of_layer))
            check(trace.stage(key, layer, head), of_layer[n], f"{key} of {layer}.{head}")


def test_a_run_taken_up_by_another_is_the_whole_runs(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    ids = random_ids(24)
    for explicit in (True, False):
        earlier = gpt2viz.trace(model, [*ids[:17], 5, 6], explicit=explicit)
        again = gpt2viz.trace(model, ids, explicit=explicit, reuse=earlier)
        assert again.reused == 17
        expected = reference(folder, ids)
        assert_allclose(again.logits[0], expected.pop("logits"), **TOLERANCE)
        for key, values in expected.items():
            check_stage(again, key, values)


def test_an_equal_shift_of_both_positions_changes_no_score(folder: Path) -> None:
    """RoPE: a score depends on how far apart query and key are, and on nothing else of place."""
    model, same = gpt2viz.load_model(folder), [7] * 20
    layer = gpt2viz.trace(model, same, explicit=True).stage("scores", 0)[0]  # one vector everywhere
    for distance in range(20):
        along = np.diagonal(layer, -distance, axis1=1, axis2=2)
        assert_allclose(along, np.broadcast_to(along[:, :1], along.shape), rtol=1e-4, atol=1e-4)
