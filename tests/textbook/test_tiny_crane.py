"""The tiny crane equals NumPy, which shares no code, and the package's own GPT-2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies
from numpy.testing import assert_allclose
from torch import nn

from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.textbook import tiny_crane
from gpt2viz.textbook.tiny_crane import MADE
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


def _filled(draw: Iterator[float]) -> dict[str, np.ndarray]:
    """Numbers for all tables."""
    shapes = {name: np.shape(table) for name, table in MADE.items()}
    return {
        name: np.array([next(draw) for _ in range(int(np.prod(shape)))]).reshape(shape)
        for name, shape in shapes.items()
    }


def _check(tables: dict[str, np.ndarray]) -> None:
    result, expected = tiny_crane.run(tables), tiny_run_with(tables)
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
    _check(_filled(iter(lambda: round(draw.uniform(-largest, largest), 3), None)))


@pytest.mark.parametrize("cycle", [(0,), (10,), (-10,), (10, -10, 0), (0.001, 0)])
def test_extreme_tables_equal_the_oracle(cycle: tuple[float, ...]) -> None:
    _check(_filled(cycle[n % len(cycle)] for n in range(1000)))


def test_both_oracles_agree() -> None:
    result = tiny_run_with({name: np.array(table) for name, table in MADE.items()})
    for name, values in tiny_run().items():
        if name in result:
            assert_allclose(result[name], values, atol=1e-12, err_msg=name)


def own_gpt2() -> GPT2:
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
    network = GPT2(config).eval()
    network.ln_f = nn.Identity()  # type: ignore[assignment]
    for name in ("ln_1", "ln_2"):
        setattr(network.h[0], name, nn.Identity())
    made = {name: np.array(table) for name, table in MADE.items()}
    tables = {
        "wte.weight": made["tokens"],
        "wpe.weight": made["positions"],
        "h.0.attn.c_attn.weight": np.vstack([made[f"{part}{n}"] for part in "qkv" for n in (0, 1)]),
        "h.0.attn.c_proj.weight": made["merge"],
        "h.0.mlp.c_fc.weight": made["widen"][:, :-1],
        "h.0.mlp.c_fc.bias": made["widen"][:, -1],
        "h.0.mlp.c_proj.weight": made["back"],
    }
    with torch.no_grad():
        for name, weights in network.named_parameters():
            weights.copy_(torch.tensor(tables.get(name, 0), dtype=torch.float32))
    return network


def test_tiny_crane_is_gpt2_without_norms() -> None:
    with torch.inference_mode():
        logits = own_gpt2()(torch.tensor([tiny_crane.IDS]))[0]
    assert_allclose(logits, tiny_crane.run().logits, atol=1e-5)
