"""Direct paths against TransformerLens' own, and products of matrices where all is linear."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis import patching
from gpt2viz.analysis.direct_paths import WAYS
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from tests.analysis import peer_patches
from tests.analysis.peer_patches import ANSWER, CLEAN, CORRUPTED
from tests.bundled import bundled_model
from tests.checkpoints import write_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> gpt2viz.Model:
    return gpt2viz.load_model(
        write_checkpoint(tmp_path_factory.mktemp("model"), **peer_patches.SIZES)
    )


@pytest.mark.parametrize("rows", [1024, 1], ids=["together", "one at a time"])
def test_every_path_is_as_transformer_lens_makes_it(
    model: gpt2viz.Model, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ``get_act_patch_direct_path_all_sources``: see ``tests.analysis.peer_patches``."""
    monkeypatch.setattr(patching, "AT_ONCE", rows)
    kept = json.loads(Path(peer_patches.__file__).with_suffix(".json").read_text("utf-8"))["paths"]
    theirs = np.array([kept[way] for way in WAYS])  # (3, layer, head, to layer, to head)
    for layer in (1, 2):
        for head in range(4):
            result = gpt2viz.patch_paths(model, CLEAN, CORRUPTED, (layer, head), ANSWER)
            assert result.values.shape == (3, layer, 4)
            assert_allclose(result.values, theirs[:, :layer, :, layer, head], rtol=1e-5, atol=1e-5)
    assert np.ptp(theirs[:, 0, :, 1]) > 0.01


def test_one_path_is_that_of_all(model: gpt2viz.Model) -> None:
    messages: list[float] = []
    every = gpt2viz.patch_paths(
        model, CLEAN, CORRUPTED, "2.1", ANSWER, direction="noise",
        progress=lambda _, share: messages.append(share),
    )  # fmt: skip
    one = gpt2viz.patch_path(model, CLEAN, CORRUPTED, "1.3", "2.1", "v", ANSWER, direction="noise")
    assert_allclose(every.values[2, 1, 3], one.value, rtol=1e-6)
    assert_allclose(every.restored[2, 1, 3], one.restored, rtol=1e-5)
    assert (every.receiver, every.direction) == ((2, 1), "noise")
    swapped = gpt2viz.patch_paths(model, CORRUPTED, CLEAN, "2.1", ANSWER)
    assert_allclose(every.values, swapped.values, rtol=1e-6)
    span = every.clean - every.corrupted
    assert_allclose(every.restored, (every.values - every.corrupted) / span)
    assert_allclose(messages, np.arange(1, 7) / 6)
    assert gpt2viz.patch_paths(model, CLEAN, CORRUPTED, "0.2", ANSWER).values.size == 0


C, nh, hs = 8, 2, 4


@pytest.fixture(scope="module")
def linear() -> gpt2viz.Model:
    """Every step is linear: queries of 0 look at all they see alike, and LayerNorm only centres.

    Its epsilon is so large beside the stream that the scale is the same everywhere.
    """
    config = GPT2Config(
        vocab_size=11, n_positions=6, n_embd=C, n_layer=3, n_head=nh, n_inner=1,
        layer_norm_epsilon=1e8,
    )  # fmt: skip
    network, random = GPT2(config), torch.Generator().manual_seed(1)
    inner: Any = network
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
        inner.wte.weight.normal_(generator=random)
        inner.ln_f.weight.fill_(1e4)
        for block in inner.h:
            block.ln_1.weight.fill_(1e4)
            block.attn.c_attn.weight[2 * C :].normal_(generator=random)
            block.attn.c_proj.weight.normal_(generator=random)
    return gpt2viz.Model("linear", config, network.eval(), bundled_model().tokenizer)


def test_where_all_is_linear_paths_add_up(linear: gpt2viz.Model) -> None:
    """What a head's values carry is the sum of the paths from the tokens and from every head.

    Each is a product of matrices, made here without a run of the model.
    """
    clean, corrupted, answer, (to, head) = [3, 1, 4, 5], [3, 9, 4, 2], (6, 7), (2, 1)
    T, inner = len(clean), linear.network
    weights: Any = {n: w.detach().double().numpy() for n, w in inner.state_dict().items()}
    centred = np.eye(C) - 1 / C
    looks = np.tril(np.ones((T, T))) / np.arange(1, T + 1)[:, None]

    def through(layer: int, head: int, stream: Any) -> Any:
        """What a head adds to the stream for what it reads in one."""
        here = slice(head * hs, (head + 1) * hs)
        W_V = weights[f"h.{layer}.attn.c_attn.weight"][2 * C :][here]  # (hs, C)
        W_O = weights[f"h.{layer}.attn.c_proj.weight"][:, here]  # (C, hs)
        return looks @ stream @ centred @ W_V.T @ W_O.T

    direction = centred @ (weights["wte.weight"][answer[0]] - weights["wte.weight"][answer[1]])
    tokens = weights["wte.weight"][clean] - weights["wte.weight"][corrupted]  # (T, C)
    stream, paths = tokens, np.zeros((to, nh))
    for layer in range(to):
        wrote = [through(layer, sender, stream) for sender in range(nh)]
        paths[layer] = [(through(to, head, one) @ direction)[-1] for one in wrote]
        stream = stream + sum(wrote)
    from_tokens = float((through(to, head, tokens) @ direction)[-1])

    result = gpt2viz.patch_paths(linear, clean, corrupted, (to, head), answer)
    values = gpt2viz.patch_sweep(linear, clean, corrupted, "v", answer)
    effects = result.values - result.corrupted
    scale = np.abs(paths).max()
    assert_allclose(effects[2], paths, rtol=1e-3, atol=1e-5 * scale)
    assert_allclose(effects[:2], 0, atol=1e-5 * scale)
    whole = values.values[to, head] - values.corrupted
    assert_allclose(effects[2].sum() + from_tokens, whole, rtol=1e-3)
    assert abs(from_tokens) < 100 * scale < 1e4 * abs(whole)
