"""TransformerLens' names give TransformerLens' numbers, of version 2.18 in double precision.

Its ``HookedTransformer`` had the weights of a model made by formula, and ``run_with_cache`` ran
the ids below; of each tensor the second, the third and the last two numbers are kept.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.run.stages import STAGE, TRANSFORMER_LENS
from tests.analysis.test_transformer_lens import wave
from tests.bundled import bundled_model

IDS = [3, 1, 4, 1, 5]
THEIRS: dict[str, list[float]] = {
    "hook_embed": [0.492503, -0.262625, -0.207888, -0.288962],
    "hook_pos_embed": [0.233651, 0.599744, 0.504345, -0.374683],
    "blocks.1.hook_resid_pre": [-1.994551, -1.63444, -0.821699, -3.050681],
    "blocks.1.attn.hook_q": [0.335753, 0.247163, -3.064875, -1.04502],
    "blocks.1.attn.hook_k": [-1.817116, -1.231527, 1.379789, 2.893974],
    "blocks.1.attn.hook_v": [-0.127819, 0.323715, -1.171659, -0.624771],
    "blocks.1.attn.hook_attn_scores": [-np.inf, -np.inf, -12.537903, -7.456797],
    "blocks.1.attn.hook_pattern": [0.0, 0.0, 8.4e-05, 0.01345],
    "blocks.1.attn.hook_z": [-0.127819, 0.323715, -0.34186, 0.867114],
    "blocks.1.hook_attn_out": [1.939666, 0.694185, -1.470702, -0.543748],
    "blocks.1.hook_resid_mid": [-0.054886, -0.940255, -2.292402, -3.594429],
    "blocks.1.hook_mlp_out": [-0.67465, -0.759544, 0.486094, -0.480588],
    "blocks.1.hook_resid_post": [-0.729535, -1.699799, -1.806308, -4.075016],
    "ln_final.hook_normalized": [0.499691, 0.324504, 0.438914, -0.657703],
    "blocks.0.hook_resid_pre": [0.726154, 0.337119, 0.296457, -0.663645],
}


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    """Two layers of two heads, every weight and bias a wave of its own."""
    config = GPT2Config(
        vocab_size=17, n_positions=6, n_embd=12, n_layer=2, n_head=2, n_inner=5,
        tie_word_embeddings=False,
    )  # fmt: skip
    network = GPT2(config).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            around = 1.0 if re.search(r"ln_\w+\.weight", name) else 0.0
            weight.copy_(around + 0.6 * wave(name, *weight.shape))
    return gpt2viz.Model("by formula", config, network, bundled_model().tokenizer)


@pytest.mark.parametrize("explicit", [True, False])
def test_names_give_transformer_lens_numbers(model: gpt2viz.Model, explicit: bool) -> None:
    trace = gpt2viz.trace(model, IDS, explicit=explicit)
    for name, numbers in THEIRS.items():
        result = trace.stage(name)
        if re.search(r"hook_[qkvz]$", name):
            result = result.transpose(0, 2, 1, 3)  # theirs are (B, T, nh, hs)
        assert_allclose(
            result.reshape(-1)[[1, 2, -2, -1]], numbers, rtol=1e-5, atol=2e-6, err_msg=name
        )
    general = {re.sub(r"(?<=blocks\.)\d", "N", name) for name in THEIRS}
    assert general == set(TRANSFORMER_LENS)


def test_each_tensor_has_its_transformer_lens_name(model: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(model, IDS)
    names = {(r.key, r.layer): STAGE[r.key].in_transformer_lens(r.layer) for r in trace.tensors}
    for (key, layer), name in names.items():
        if name:
            np.testing.assert_array_equal(trace.stage(name), trace.stage(key, layer))
    assert names["weights", 1] == "blocks.1.attn.hook_pattern"
    assert names["residual_out", 0] == "blocks.0.hook_resid_post"
    assert names["embedding", None] == "blocks.0.hook_resid_pre"
    assert names["scores", 0] == ""
    assert trace.stage("blocks.1.attn.hook_pattern", head=1).shape == (5, 5)
