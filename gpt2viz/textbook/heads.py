"""Many heads: how the shapes change, the four variants on one input, and heads apart."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook.claims import Claim, shape
from gpt2viz.textbook.draws import drawn, normal
from gpt2viz.textbook.steps import JOURNEY_X, rows
from gpt2viz.textbook.variants import (
    CausalAttention,
    MultiHeadAttention,
    SimplifiedAttention,
    TrainableAttention,
    separate,
)

Step = tuple[str, str]
Variant = SimplifiedAttention | TrainableAttention | MultiHeadAttention


def shape_steps(B: int, T: int, C: int, nh: int) -> list[Step]:
    """(what is done, shape after it) for x (B, T, C) on its way through nh heads and back.

    The tensors are made and their shapes read off. Raises ``ShapeError`` where nh doesn't divide C.
    """
    heads = MultiHeadAttention(C, nh, n_positions=T)
    steps: list[Step] = []

    def note(what: str, tensor: Tensor) -> Tensor:
        steps.append((what, shape(tensor)))
        return tensor

    with torch.inference_mode():
        x = note("input x", torch.zeros(B, T, C))
        q = note("queries = query(x); keys and values alike", heads.query(x))
        k, v = heads.split(heads.key(x)), heads.split(heads.value(x))
        q = note("view: cut the channels into heads", q.view(B, T, nh, C // nh))
        q = note("transpose(1, 2): heads before tokens", q.transpose(1, 2))
        scores = note("scores = q @ k.transpose(-2, -1)", q @ k.transpose(-2, -1))
        weights = note("softmax(scores / √hs)", torch.softmax(scores / math.sqrt(C // nh), dim=-1))
        y = note("weights @ v: one output a head", weights @ v)
        y = note("transpose(1, 2): tokens before heads", y.transpose(1, 2))
        y = note("reshape: heads side by side again", y.reshape(B, T, C))
        note("output projection", heads.out(y))
    return steps


@lru_cache(maxsize=8)
def the_variants(C: int, nh: int, seed: int) -> dict[str, Variant]:
    """The four forms of attention for C channels, with parameters from a seed."""
    variants: dict[str, Variant] = {
        "nothing learned": SimplifiedAttention(),
        "trainable": TrainableAttention(C, C),
        "causal": CausalAttention(C, C),
        "multi-head": MultiHeadAttention(C, nh, n_positions=64),
    }
    return {name: drawn(variant, seed) for name, variant in variants.items()}


def four_variants(x: ArrayLike, nh: int = 1, seed: int = 0) -> dict[str, Tensor]:
    """One input x (T, C) through each of the four forms of attention, parameters from a seed."""
    batch = rows(x)[None]  # (1, T, C)
    with torch.inference_mode():
        return {
            name: variant(batch)[0]
            for name, variant in the_variants(batch.shape[-1], nh, seed).items()
        }


def apart_and_fused(C: int, nh: int, T: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The outputs (T, C) of one multi-head module and of separate heads with the same weights."""
    fused = drawn(MultiHeadAttention(C, nh, n_positions=T), seed)
    x = normal(1, T, C, seed=seed + 1)
    with torch.inference_mode():
        return fused(x)[0], separate(fused)(x)[0]


def split_claims() -> list[Claim]:
    """E8: 4 tokens, 768 channels, 12 heads."""
    found = [size for _, size in shape_steps(1, 4, 768, 12)]
    return [
        Claim("q before", "(1, 4, 768)", found[1]),
        Claim("q after view and transpose", "(1, 12, 4, 64)", found[3]),
        Claim("output of each head", "(1, 12, 4, 64)", found[6]),
        Claim("heads merged", "(1, 4, 768)", found[8]),
        Claim("after the output projection", "(1, 4, 768)", found[9]),
    ]


def variant_claims() -> list[Claim]:
    """E20."""
    heads = MultiHeadAttention(768, 12, n_positions=6)
    count = sum(weights.numel() for weights in heads.parameters())
    small = TrainableAttention(3, 2)(rows(JOURNEY_X)[None])
    outputs = four_variants(JOURNEY_X)
    return [
        Claim("shape of the trainable form's output", "(1, 6, 2)", shape(small)),
        Claim(
            "parameters of the multi-head form",
            "2,359,296",
            count,
            "The output projection has a bias of 768 numbers, which the text does not count.",
        ),
        Claim("“Your”, nothing learned", "", outputs["nothing learned"][0]),
        Claim("“Your”, trainable", "", outputs["trainable"][0]),
        Claim("“Your”, causal", "", outputs["causal"][0]),
    ]


def pipeline_claims() -> list[Claim]:
    """E21: 2 texts, 6 tokens, 768 channels, 12 heads."""
    printed = (
        "(2, 6, 768)",
        "(2, 6, 768)",
        "(2, 6, 12, 64)",
        "(2, 12, 6, 64)",
        "(2, 12, 6, 6)",
        "(2, 12, 6, 6)",
        "(2, 12, 6, 64)",
        "(2, 6, 12, 64)",
        "(2, 6, 768)",
        "(2, 6, 768)",
    )
    steps = shape_steps(2, 6, 768, 12)
    return [Claim(what, size, found) for size, (what, found) in zip(printed, steps, strict=True)]


def separate_claims() -> list[Claim]:
    """E24."""
    fused, apart = apart_and_fused(C=12, nh=3)
    largest = float((fused - apart).abs().max())
    return [Claim("one wide module and separate heads give the same", "", str(largest < 1e-6))]
