"""The package's numbers against two independent oracles: transformers, and plain NumPy."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import load_file

import gpt2viz
from gpt2viz.analysis.cell import cell_arithmetic
from gpt2viz.model.config import ACTIVATIONS
from tests.checkpoints import transformers_model, write_checkpoint
from tests.llama_checkpoints import transformers_model as of_any_family
from tests.numpy_gpt2 import Tolerance, reference
from tests.oracles import FAMILIES, written

TOLERANCE: Tolerance = {"rtol": 1e-5, "atol": 1e-5}

SHAPES: dict[str, dict[str, Any]] = {
    "gelu_new, tied": {},
    "gelu": {"activation_function": "gelu"},
    "relu, untied": {"activation_function": "relu", "tie_word_embeddings": False},
    "one head, one layer": {"n_head": 1, "n_layer": 1},
    "odd head size": {"n_head": 4, "n_embd": 20},
    "hs larger than T": {"n_head": 2, "n_embd": 96},
    "narrow MLP, own epsilon": {"n_inner": 40, "layer_norm_epsilon": 1e-3},
    "deeper layers scaled down": {"scale_attn_by_inverse_layer_idx": True},
    "upcast": {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    "padded vocabulary, longer context": {"vocab_size": 512, "n_positions": 40},
}
LENGTHS = (1, 7, 24)


def random_ids(n: int) -> list[int]:
    return np.random.default_rng(n).integers(0, 420, n).tolist()


@pytest.fixture(scope="module", params=list(SHAPES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(checkpoint folder, transformers' model of it, ours)."""
    folder = write_checkpoint(tmp_path_factory.mktemp("parity"), **SHAPES[request.param])
    theirs = transformers_model(folder)
    return folder, theirs, gpt2viz.load_model(folder)


def test_equals_transformers(pair: Any, subtests: pytest.Subtests) -> None:
    for n in LENGTHS:
        with subtests.test(n=n):
            _, theirs, ours = pair
            ids = random_ids(n)
            trace = gpt2viz.trace(ours, ids)
            with torch.no_grad():
                out = theirs(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
            assert_allclose(trace.logits, out.logits, **TOLERANCE)
            assert_allclose(trace.stage("embedding"), out.hidden_states[0], **TOLERANCE)
            assert_allclose(trace.stage("final_norm"), out.hidden_states[-1], **TOLERANCE)
            for layer, attention in enumerate(out.attentions):
                assert_allclose(trace.stage("weights", layer), attention, **TOLERANCE)
            streams = out.hidden_states[1:-1]  # the last one is past the final norm
            for layer, hidden in enumerate(streams):
                assert_allclose(trace.stage("residual_out", layer), hidden, **TOLERANCE)
            expected = out.logits[:, -1].softmax(-1)
            assert_allclose(trace.next_token_probabilities, expected, **TOLERANCE)


def test_every_stage_equals_numpy(pair: Any, subtests: pytest.Subtests) -> None:
    folder, _, model = pair
    for explicit, causal, n in product((True, False), (True, False), LENGTHS):
        with subtests.test(explicit=explicit, causal=causal, n=n):
            ids = random_ids(n)
            expected = reference(folder, ids, causal)
            trace = gpt2viz.trace(model, ids, causal, explicit=explicit)
            kept = (stage.key for stage in trace.graph.values() if stage.keep)
            compared = {key for key in kept if key in expected}
            for key in compared:
                if not trace.graph[key].per_layer:
                    values = trace.stage(key)[0]
                    assert_allclose(values, expected[key], **TOLERANCE, err_msg=key)
                    continue
                for layer, values in enumerate(expected[key]):
                    where = f"{key} of layer {layer}"
                    assert_allclose(trace.stage(key, layer)[0], values, **TOLERANCE, err_msg=where)
            assert compared >= {*gpt2viz.HEAD_STAGES, "residual_mid", "residual_out", "mlp_output"}
            assert compared >= {"embedding", "final_norm"}
            assert_allclose(trace.logits[0], expected["logits"], **TOLERANCE)
            probabilities = expected["next_token_probabilities"]
            assert_allclose(trace.next_token_probabilities[0], probabilities, **TOLERANCE)


def test_one_cell_worked_out_by_hand_is_what_the_model_computed(pair: Any) -> None:
    _, _, ours = pair
    trace = gpt2viz.trace(ours, random_ids(7))
    last = ours.config.n_layer - 1
    assert cell_arithmetic(trace, last, 0, 5, 3).largest_difference < 1e-5
    divided = trace.record("scaled_scores", last)
    assert divided is not None
    deeper = ours.config.scale_attn_by_inverse_layer_idx
    assert divided.operation == "Q·Kᵀ / √hs" + (" / 3" if deeper else "")


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_equals_transformers(tmp_path: Path, name: str) -> None:
    theirs = transformers_model(write_checkpoint(tmp_path, activation_function=name))
    ids = random_ids(9)
    trace = gpt2viz.trace(gpt2viz.load_model(tmp_path), ids)
    with torch.no_grad():
        assert_allclose(trace.logits, theirs(torch.tensor([ids])).logits, **TOLERANCE)


@torch.no_grad()
def test_added_tokens_equal_transformers(tmp_path: Path) -> None:
    """Where a fine-tuned model's file has those that were added to its vocabulary, in order."""
    theirs = transformers_model(write_checkpoint(tmp_path))
    first = len(json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8")))
    added = {"<user>": first, "<bot>": first + 1}
    (tmp_path / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    trace = gpt2viz.trace(gpt2viz.load_model(tmp_path), "<user>A crane<bot> ate")
    assert trace.token_ids[0] == first
    assert first + 1 in trace.token_ids
    expected = theirs(torch.tensor([trace.token_ids])).logits
    assert_allclose(trace.logits, expected, **TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_files_of_any_precision_and_in_shards(
    tmp_path: Path, family: str, dtype: torch.dtype
) -> None:
    """What is stored is read to the last bit, and runs in float32, as in transformers."""
    theirs = of_any_family(written(tmp_path, family)).to(dtype)
    (tmp_path / "model.safetensors").unlink()
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    files = list(tmp_path.glob("model-*.safetensors"))
    assert len(files) > 1
    stored = {name: weight for file in files for name, weight in load_file(file).items()}
    assert {weight.dtype for weight in stored.values()} == {dtype}
    model = gpt2viz.load_model(tmp_path)
    for name, weight in model.network.named_parameters():
        before = {"gpt2": "transformer."}.get(family, "model.") * (name != "lm_head.weight")
        turned = ".c_" in name and name.endswith("weight")  # GPT-2 stores (in, out)
        expected = stored[before + name].float()
        assert torch.equal(weight, expected.t() if turned else expected), name
    trace = gpt2viz.trace(model, random_ids(9))
    out = of_any_family(tmp_path)(torch.tensor([trace.token_ids]))
    assert trace.logits.dtype == np.float32
    assert_allclose(trace.logits, out.logits, **TOLERANCE)
