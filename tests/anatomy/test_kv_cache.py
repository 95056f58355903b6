"""The cache of keys and values: the work and memory of a step, and the effect of dropped tokens.

The oracles are transformers' step with its cache, whose operations PyTorch counts, and a GPT-2 in
NumPy that reads token by token and deletes keys and values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.utils.flop_counter import FlopCounterMode

import gpt2viz
from gpt2viz.anatomy.cost import products, products_of
from gpt2viz.anatomy.kv_cache import POLICIES, cache_bytes, evictions, held_tokens, last_token_alone
from tests.checkpoints import transformers_model, write_checkpoint
from tests.numpy_gpt2 import Tolerance, read, reference, softmax
from tests.oracles import write_model

TOLERANCE: Tolerance = {"rtol": 1e-5, "atol": 1e-5}
IDS = np.random.default_rng(5).integers(0, 420, 12).tolist()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(checkpoint folder, transformers' model of it, ours)."""
    folder = tmp_path_factory.mktemp("cache")
    write_checkpoint(folder, n_inner=20, scale_attn_by_inverse_layer_idx=True)
    theirs = transformers_model(folder)
    return folder, theirs, gpt2viz.load_model(folder)


def logits_with_cache(folder: Path, ids: list[int], room: int | None, first: int) -> np.ndarray:
    """Logits (T, n_vocab) by NumPy, token by token with lists of keys and values.

    If there are more than ``room``, the oldest after the ``first`` is deleted.
    """
    model = read(folder)
    config, w = model
    caches: list[list[Any]] = [[] for _ in range(config["n_layer"])]
    logits = []
    for position, token in enumerate(ids):
        x = w["wte.weight"][token] + w["wpe.weight"][position]  # (C,)
        for layer, cache in enumerate(caches):
            h, deeper = f"h.{layer}", 1 + layer * bool(config["scale_attn_by_inverse_layer_idx"])
            qkv = model.linear(model.norm(x, f"{h}.ln_1"), f"{h}.attn.c_attn")
            qkv = qkv.reshape(3, config["n_head"], -1)
            cache.append(qkv[1:])
            if room is not None and len(cache) > room:
                del cache[first]
            scores = [(qkv[0] * k).sum(-1) / qkv.shape[-1] ** 0.5 / deeper for k, _ in cache]
            shares = softmax(np.stack(scores, axis=-1))  # (nh, tokens kept)
            heads = sum(shares[:, n, None] * v for n, (_, v) in enumerate(cache))
            x = x + model.linear(np.ravel(heads), f"{h}.attn.c_proj")
            x = x + model.mlp(x, layer)
        logits.append(w["wte.weight"] @ model.norm(x, "ln_f"))
    assert {len(cache) for cache in caches} == {min(len(ids), room or len(ids))}
    return np.stack(logits)


@pytest.mark.parametrize("n_tokens", [1, 3, 12])
def test_dropped_tokens_equal_hidden_pairs(pair: Any, n_tokens: int) -> None:
    """In every policy, for texts shorter than the room, as long, and longer."""
    folder, _, model = pair
    ids = IDS[:n_tokens]
    plain = reference(folder, ids, True)["logits"]
    for room, first in ((2, 1), (3, 1), (3, 2), (8, 3), (12, 4), (20, 2)):
        edits = evictions(room, first)
        expected = (
            plain,
            logits_with_cache(folder, ids, room, 0),
            logits_with_cache(folder, ids, room, first),
        )
        for policy, logits in zip(POLICIES, expected, strict=True):
            trace = gpt2viz.trace(model, ids, edits=edits[policy])
            name = f"{policy}, {first} of {room}"
            assert_allclose(trace.logits[0], logits, **TOLERANCE, err_msg=name)
            cached = n_tokens if policy == "keep all" else min(n_tokens, room)
            assert held_tokens(edits[policy], n_tokens) == cached
        if n_tokens > room:  # only then something is dropped
            assert abs(expected[0] - expected[1]).max() > 0.01
            assert abs(expected[1] - expected[2]).max() > 0.01


def test_invalid_cache_sizes_are_refused() -> None:
    for room, first in ((1, 1), (4, 4), (4, 0), (0, 1)):
        with pytest.raises(ValueError, match=f"for {room} tokens can't keep the first {first}"):
            evictions(room, first)


@pytest.mark.parametrize("n_tokens", [1, 2, 12])
def test_step_with_a_cache_equals_transformers(pair: Any, n_tokens: int) -> None:
    """Shapes and bytes of the cache, and multiply-adds with it and without."""
    _, theirs, model = pair
    ids = torch.tensor([IDS[:n_tokens]])
    with torch.no_grad():
        past = theirs(ids[:, :-1]).cache if n_tokens > 1 else None
        with FlopCounterMode(display=False) as step:
            out = theirs(ids[:, -1:], cache=past, use_cache=True, output_attentions=True)
        with FlopCounterMode(display=False) as whole:
            theirs(ids, logits_to_keep=1)
    trace = gpt2viz.trace(model, IDS[:n_tokens])
    tensors = last_token_alone(model, trace)
    made = {record.key: record for record in tensors if record.layer == 2}
    layer, nh, hs = out.cache.layers[2], 4, 6
    assert made["q"].shape == (1, nh, 1, hs)
    assert made["k"].shape == made["v"].shape == tuple(layer.keys.shape)
    assert made["scores"].shape == made["weights"].shape == tuple(out.attentions[2].shape)
    if n_tokens > 1:
        assert made["scores"].axes == ("B", "nh", "1", "T")
        assert made["k"].axes == ("B", "nh", "T", "hs")
    cached = sum(part.nbytes for of in out.cache.layers for part in (of.keys, of.values))
    assert cache_bytes(tensors) == cache_bytes(trace.tensors) == cached
    alone = products_of(tensors, model.config)
    assert 2 * sum(p.multiply_adds for p in alone) == step.get_total_flops()
    assert 2 * sum(p.multiply_adds for p in products(trace)) == whole.get_total_flops()
    for product in alone:
        factors = [int(n.replace(",", "")) for n in product.worked.split(" · ")]
        assert np.prod(factors) * product.times == product.multiply_adds
        assert len(factors) == len(product.formula.split(" · "))


def test_runs_without_a_cache_are_refused(pair: Any) -> None:
    _, _, model = pair
    with pytest.raises(ValueError, match="Only with the causal mask on"):
        last_token_alone(model, gpt2viz.trace(model, IDS, causal=False))
    edited = gpt2viz.trace(model, IDS, edits=gpt2viz.parse_edits("window:2"))
    with pytest.raises(ValueError, match="A run with edits can't reuse another"):
        last_token_alone(model, edited)


@pytest.mark.parametrize("family", ["llama, two groups", "qwen2, a group for each head, untied"])
def test_cache_is_stored_by_group(tmp_path: Path, family: str) -> None:
    model = gpt2viz.load_model(write_model(tmp_path, family))
    with torch.no_grad():
        cache = transformers_model(tmp_path)(torch.tensor([IDS]), use_cache=True).cache
    cached = sum(part.nbytes for of in cache.layers for part in (of.keys, of.values))
    trace = gpt2viz.trace(model, IDS)
    with FlopCounterMode(display=False) as counter:
        tensors = last_token_alone(model, trace)
    assert cache_bytes(tensors) == cache_bytes(trace.tensors) == cached
    alone = products_of(tensors, model.config)
    assert 2 * sum(p.multiply_adds for p in alone) == counter.get_total_flops()
