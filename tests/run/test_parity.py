"""The package's numbers against two independent oracles: transformers, and plain NumPy."""

from __future__ import annotations

import json
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from packaging.version import Version
from safetensors.torch import load_file
from tokenizers import ByteLevelBPETokenizer

import gpt2viz
from gpt2viz.model.config import ACTIVATIONS, LlamaConfig
from tests.checkpoints import transformers_model, write_checkpoint
from tests.llama_checkpoints import FAMILIES as LLAMAS
from tests.llama_checkpoints import write_llama
from tests.numpy_gpt2 import Tolerance
from tests.oracles import FAMILIES, oracle, write_model

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


#: With the oldest supported transformers only GPT-2 can be compared.
NEW = pytest.mark.skipif(
    Version(version("transformers")) < Version("5"), reason="it reads no rope_parameters"
)


@pytest.fixture(scope="module", params=[*SHAPES, *(pytest.param(n, marks=NEW) for n in LLAMAS)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parity")
    if request.param in SHAPES:
        return write_checkpoint(folder, **SHAPES[request.param])
    return write_llama(folder, **LLAMAS[request.param])


@pytest.fixture(scope="module")
def model(folder: Path) -> gpt2viz.Model:
    return gpt2viz.load_model(folder)


@torch.no_grad()
def test_equals_transformers(folder: Path, model: gpt2viz.Model) -> None:
    theirs = transformers_model(folder)
    for n, explicit in product(LENGTHS, (True, False)):
        ids = random_ids(n)
        trace = gpt2viz.trace(model, ids, explicit=explicit)
        out = theirs(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
        assert_allclose(trace.logits, out.logits, **TOLERANCE)
        assert_allclose(trace.stage("embedding"), out.hidden_states[0], **TOLERANCE)
        assert_allclose(trace.stage("final_norm"), out.hidden_states[-1], **TOLERANCE)
        for layer, attention in enumerate(out.attentions):
            assert_allclose(trace.stage("weights", layer), attention, **TOLERANCE)
        for layer, hidden in enumerate(out.hidden_states[1:-1]):  # the last is after the final norm
            assert_allclose(trace.stage("residual_out", layer), hidden, **TOLERANCE)
        expected = out.logits[:, -1].softmax(-1)
        assert_allclose(trace.next_token_probabilities, expected, **TOLERANCE)


@NEW
@torch.no_grad()
@pytest.mark.parametrize("family", LLAMAS)
def test_llama_from_transformers_is_used_directly(tmp_path: Path, family: str) -> None:
    from transformers import PreTrainedTokenizerFast

    theirs = transformers_model(write_llama(tmp_path, **LLAMAS[family]))
    files = (str(tmp_path / name) for name in ("vocab.json", "merges.txt"))
    bpe = PreTrainedTokenizerFast(tokenizer_object=ByteLevelBPETokenizer(*files)._tokenizer)
    ids = random_ids(24)
    run = gpt2viz.trace(gpt2viz.from_transformers(theirs, bpe), ids)
    assert_allclose(run.logits, theirs(torch.tensor([ids])).logits, **TOLERANCE)
    shared = theirs.get_input_embeddings().weight
    assert run.stage("token_embedding")[0, -1].tolist() == shared[ids[-1]].tolist()


def check(actual: Any, expected: Any, key: str) -> None:
    """Equal to 1e-5 of the largest number: a score is a sum of terms that may cancel."""
    largest = max(1.0, np.abs(expected[np.isfinite(expected)]).max())
    assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * largest, err_msg=key)


def check_run(trace: gpt2viz.Trace, expected: dict[str, Any]) -> None:
    """The logits, and every stage of every layer and every head."""
    assert_allclose(trace.logits[0], expected["logits"], **TOLERANCE)
    keys = {stage.key for stage in trace.graph.values() if stage.keep}
    assert keys - expected.keys() <= {"token_embedding", "position_embedding"}
    for layer, weights in enumerate(expected["weights"]):
        check([matrix.copy() for matrix in trace.weights_of_heads(layer)], weights, "head by head")
        seen = np.isfinite(expected["masked_scores"][layer]).sum(axis=-1)
        assert trace.windows[layer] == seen.max() or not trace.causal
    for key in keys & expected.keys():
        stage, n_head = trace.graph[key], trace.config.n_head
        if not stage.per_layer:
            check(trace.stage(key)[0], expected[key], key)
            continue
        for layer, values in enumerate(expected[key]):
            check(trace.stage(key, layer)[0], values, f"{key} of layer {layer}")
            for head in range(n_head if stage.of_head else 0):
                row = head * len(values) // n_head
                check(trace.stage(key, layer, head), values[row], f"{key} of {layer}.{head}")


def test_every_stage_equals_numpy(
    folder: Path, model: gpt2viz.Model, subtests: pytest.Subtests
) -> None:
    of = oracle(folder)
    for explicit, causal, n in product((True, False), (True, False), LENGTHS):
        with subtests.test(explicit=explicit, causal=causal, n=n):
            ids = random_ids(n)
            check_run(gpt2viz.trace(model, ids, causal, explicit=explicit), of.run(ids, causal))


def test_run_that_reuses_another_equals_numpy(folder: Path, model: gpt2viz.Model) -> None:
    ids, of = random_ids(24), oracle(folder)
    for explicit in (True, False):
        earlier = gpt2viz.trace(model, [*ids[:17], 5, 6], explicit=explicit)
        again = gpt2viz.trace(model, ids, explicit=explicit, reuse=earlier)
        assert again.reused == 17
        check_run(again, of.run(ids, True))


@pytest.mark.parametrize("deeper", [False, True])
def test_score_divisor_is_recorded(tmp_path: Path, deeper: bool) -> None:
    write_checkpoint(tmp_path, scale_attn_by_inverse_layer_idx=deeper)
    divided = gpt2viz.trace(gpt2viz.load_model(tmp_path), [1, 2]).record("scaled_scores", 2)
    assert divided is not None
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
    """A fine-tuned model's file lists tokens added to its vocabulary, in order."""
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
@pytest.mark.parametrize(
    "family", [pytest.param(n, marks=() if n == "gpt2" else NEW) for n in FAMILIES]
)
@torch.no_grad()
def test_shards_of_any_precision_equal_transformers(
    tmp_path: Path, family: str, dtype: torch.dtype
) -> None:
    """Weights are read to the last bit, and run in float32, as in transformers."""
    theirs = transformers_model(write_model(tmp_path, family)).to(dtype)
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
    out = transformers_model(tmp_path)(torch.tensor([trace.token_ids]))
    assert trace.logits.dtype == np.float32
    assert_allclose(trace.logits, out.logits, **TOLERANCE)


@NEW
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("change", [{}, {"use_sliding_window": True}, {"sliding_window": None}])
def test_config_defaults_equal_transformers(family: str, change: dict[str, Any]) -> None:
    from transformers import AutoConfig

    values = {"vocab_size": 9, "hidden_size": 512, "num_attention_heads": 64, **change}
    values |= {"num_hidden_layers": 30, "intermediate_size": 8, "max_position_embeddings": 9}
    theirs = AutoConfig.for_model(family, **values)
    ours = LlamaConfig.from_dict(values | {"model_type": family})
    window = theirs.to_dict().get("sliding_window")
    kinds = getattr(theirs, "layer_types", ["sliding_attention"] * 30)
    windows = [window if kind == "sliding_attention" else None for kind in kinds]
    assert [ours.window(layer) for layer in range(30)] == windows
    assert ours.n_kv_head == theirs.num_key_value_heads
    assert ours.head_dim == getattr(theirs, "head_dim", 8)
    assert ours.rope.base == theirs.rope_parameters["rope_theta"]
    for name in ("rms_norm_eps", "hidden_act", "tie_word_embeddings"):
        assert getattr(ours, name) == getattr(theirs, name)
