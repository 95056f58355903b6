"""The tiny crane equals NumPy, which shares no code, and the package's own GPT-2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies
from numpy.testing import assert_allclose
from torch import nn

from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.textbook import tiny_crane
from gpt2viz.textbook.tiny_crane import MADE, Head, Tables
from tests.numpy_gpt2 import softmax
from tests.textbook.oracle import tiny_run, tiny_run_with


def test_last_word_sees_the_same_without_the_mask() -> None:
    result = tiny_crane.run()
    assert torch.equal(result.free.weights[-1], result.heads[0].weights[-1])
    assert (result.free.weights[:-1].triu(1) > 0).any()


def test_numbers_for_hand_calculation_are_integers() -> None:
    result = tiny_crane.run()
    for part in (result.x, result.free.q, result.free.k, result.free.v, result.free.scores):
        assert torch.equal(part, part.round())
        assert part.abs().max() <= 12


def _numbers(tables: Tables, draw: Iterator[float]) -> dict[str, Any]:
    """Numbers for all tables, by the oracle's names."""
    heads = [tuple(_filled(part, draw) for part in head) for head in tables.heads]
    named = {"words": tables.tokens, "positions": tables.positions, "merge": tables.merge}
    named |= {"back": tables.back, "widen": np.column_stack([tables.widen, tables.bias])}
    return {name: _filled(table, draw) for name, table in named.items()} | {"heads": heads}


def _filled(table: object, draw: Iterator[float]) -> np.ndarray:
    shape = np.shape(np.asarray(table))
    return np.array([next(draw) for _ in range(int(np.prod(shape)))]).reshape(shape)


def _tables(of: dict[str, Any]) -> Tables:
    first, second = (Head(*parts) for parts in of["heads"])
    widen, bias = of["widen"][:, :-1], of["widen"][:, -1]
    heads = first, second
    return Tables(of["words"], of["positions"], heads, of["merge"], widen, bias, of["back"])


def _check(of: dict[str, Any]) -> None:
    result, expected = tiny_crane.run(_tables(of)), tiny_run_with(**of)
    assert_allclose(result.free.weights, expected.pop("free"), atol=2e-3)
    patterns = np.stack([head.weights for head in result.heads])
    assert_allclose(patterns, expected.pop("looks"), atol=2e-3)
    assert_allclose(result.probabilities, softmax(np.asarray(result.logits, float)), atol=1e-6)
    del expected["probabilities"]  # checked above, as large logits are inexact
    for name, values in expected.items():
        error = 2e-3 * max(1, abs(values).max())
        assert_allclose(getattr(result, name), values, atol=error, err_msg=name)


@settings(max_examples=12)
@given(strategies.randoms(use_true_random=False), strategies.sampled_from([0.01, 1, 2]))
def test_random_tables_equal_the_oracle(draw, largest) -> None:  # type: ignore[no-untyped-def]
    _check(_numbers(MADE, iter(lambda: round(draw.uniform(-largest, largest), 3), None)))


@pytest.mark.parametrize("cycle", [(0,), (10,), (-10,), (10, -10, 0), (0.001, 0)])
def test_extreme_tables_equal_the_oracle(cycle: tuple[float, ...]) -> None:
    _check(_numbers(MADE, (cycle[n % len(cycle)] for n in range(1000))))


def test_both_oracles_agree() -> None:
    words, positions, merge, back, widen, bias = (
        np.array(getattr(MADE, name))
        for name in ("tokens", "positions", "merge", "back", "widen", "bias")
    )
    heads = [tuple(np.array(part) for part in head) for head in MADE.heads]
    result = tiny_run_with(words, positions, heads, merge, np.column_stack([widen, bias]), back)
    for name, values in tiny_run().items():
        if name in result:
            assert_allclose(result[name], values, atol=1e-12, err_msg=name)


def network() -> GPT2:
    """The package's own GPT-2 with these tables and without LayerNorms."""
    config = GPT2Config(
        vocab_size=5,
        n_positions=4,
        n_embd=4,
        n_layer=1,
        n_head=2,
        n_inner=3,
        activation_function="relu",
    )
    made = GPT2(config).eval()
    made.ln_f = nn.Identity()  # type: ignore[assignment]
    for name in ("ln_1", "ln_2"):
        setattr(made.h[0], name, nn.Identity())
    tables = {
        "wte.weight": MADE.tokens,
        "wpe.weight": MADE.positions,
        "h.0.attn.c_attn.weight": [
            row
            for part in zip(*MADE.heads, strict=True)
            for table in part
            for row in np.asarray(table).tolist()
        ],
        "h.0.attn.c_proj.weight": MADE.merge,
        "h.0.mlp.c_fc.weight": MADE.widen,
        "h.0.mlp.c_fc.bias": MADE.bias,
        "h.0.mlp.c_proj.weight": MADE.back,
    }
    with torch.no_grad():
        for name, weights in made.named_parameters():
            weights.copy_(torch.tensor(tables.get(name, 0), dtype=torch.float32))
    return made


def test_tiny_crane_is_gpt2_without_norms() -> None:
    with torch.inference_mode():
        logits = network()(torch.tensor([tiny_crane.IDS]))[0]
    assert_allclose(logits, tiny_crane.run().logits, atol=1e-5)
