"""Multi-head attention: four variants, each adding one idea, and the same as separate heads.

No weights, weights, a mask, many heads: the order of S. Raschka, "Build a Large Language Model
(From Scratch)" (2024), chapter 3. Shapes: B texts, T tokens, C channels, nh heads, hs channels of
one head.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gpt2viz.errors import ContextError, GPT2VizError
from gpt2viz.textbook.attention import JOURNEY_X, Steps, attend
from gpt2viz.textbook.claims import Claim, shape
from gpt2viz.textbook.mlp import drop
from gpt2viz.textbook.tensors import normal, randomize, rows


class ShapeError(GPT2VizError):
    """A tensor whose shape doesn't fit a module."""


class SimplifiedAttention(nn.Module):
    """Each vector is its own query, key and value, unscaled: (B, T, C) -> (B, T, C)."""

    def steps(self, x: Tensor) -> Steps:
        return attend(x, x, x, scaled=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.steps(x).output


class TrainableAttention(nn.Module):
    """Queries, keys and values are learned from x: (B, T, C) -> (B, T, hs)."""

    causal = False

    def __init__(self, C: int, hs: int, bias: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(C, hs, bias=bias)
        self.key = nn.Linear(C, hs, bias=bias)
        self.value = nn.Linear(C, hs, bias=bias)

    def steps(self, x: Tensor) -> Steps:
        return attend(self.query(x), self.key(x), self.value(x), causal=self.causal)

    def forward(self, x: Tensor) -> Tensor:
        return self.steps(x).output


class CausalAttention(TrainableAttention):
    """The same, but no token sees a later one: (B, T, C) -> (B, T, hs)."""

    causal = True


class MultiHeadAttention(nn.Module):
    """nh causal heads at once, from three wide matrices: (B, T, C) -> (B, T, C)."""

    def __init__(self, C: int, nh: int, n_positions: int, bias: bool = False) -> None:
        super().__init__()
        if C % nh:
            raise ShapeError(
                f"{C} channels can't be shared equally by {nh} heads: {C} / {nh} = {C / nh:.2f}. "
                f"Choose a number of heads that divides {C}."
            )
        self.nh, self.n_positions = nh, n_positions
        self.query = nn.Linear(C, C, bias=bias)
        self.key = nn.Linear(C, C, bias=bias)
        self.value = nn.Linear(C, C, bias=bias)
        self.out = nn.Linear(C, C)

    def split(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        return x.view(B, T, self.nh, C // self.nh).transpose(1, 2)  # (B, nh, T, hs)

    def steps(self, x: Tensor) -> Steps:
        q, k, v = (self.split(make(x)) for make in (self.query, self.key, self.value))
        return attend(q, k, v, causal=True)  # of each head: its output is (B, nh, T, hs)

    def forward(self, x: Tensor) -> Tensor:
        expected, given = self.query.in_features, x.shape[-1]
        if given != expected:
            raise ShapeError(
                f"x has {given} channels, shape {tuple(x.shape)}; this module reads {expected}. "
                f"Give it x of shape (B, T, {expected}), or build the module for {given} channels."
            )
        if x.shape[1] > self.n_positions:
            raise ContextError(x.shape[1], self.n_positions)
        heads = self.steps(x).output
        return self.out(heads.transpose(1, 2).reshape(x.shape))  # type: ignore[no-any-return]


class SeparateHeads(nn.Module):
    """One small attention module per head, outputs concatenated: (B, T, C) -> (B, T, C).

    As in A. Karpathy's lecture "Let's build GPT" (2023).
    """

    def __init__(self, C: int, nh: int, bias: bool = False) -> None:
        super().__init__()
        self.heads = nn.ModuleList(CausalAttention(C, C // nh, bias) for _ in range(nh))
        self.out = nn.Linear(C, C)

    def forward(self, x: Tensor) -> Tensor:
        side_by_side = torch.cat([head(x) for head in self.heads], dim=-1)  # (B, T, C)
        return self.out(side_by_side)  # type: ignore[no-any-return]


def separate(fused: MultiHeadAttention) -> SeparateHeads:
    """The same weights as separate heads: head n has rows n·hs … (n+1)·hs of each matrix."""
    C, hs = fused.query.in_features, fused.query.in_features // fused.nh
    bias = fused.query.bias is not None
    apart = SeparateHeads(C, fused.nh, bias)
    apart.out.load_state_dict(fused.out.state_dict())
    for name in ("query", "key", "value"):
        whole = fused.get_submodule(name).state_dict()
        for n, head in enumerate(apart.heads):
            part = {key: tensor[n * hs : (n + 1) * hs] for key, tensor in whole.items()}
            head.get_submodule(name).load_state_dict(part)
    return apart


Variant = SimplifiedAttention | TrainableAttention | MultiHeadAttention


def shape_steps(B: int, T: int, C: int, nh: int) -> list[tuple[str, str]]:
    """(operation, shape after it) for x (B, T, C) through nh heads and back.

    The shapes are read from real tensors. Raises ``ShapeError`` if nh doesn't divide C.
    """
    heads, x = MultiHeadAttention(C, nh, n_positions=T), torch.zeros(B, T, C)
    with torch.inference_mode():
        q, steps = heads.query(x), heads.steps(x)
        y = steps.output.transpose(1, 2)
        merged = y.reshape(B, T, C)
        made = {
            "input x": x,
            "queries = query(x); likewise for keys and values": q,
            "view: cut the channels into heads": q.view(B, T, nh, C // nh),
            "transpose(1, 2): heads before tokens": steps.q,
            "scores = q @ k.transpose(-2, -1)": steps.scores,
            "divided by √hs; −∞ for later keys": steps.masked_scores,
            "softmax: each row sums to 1": steps.weights,
            "weights @ v: one output per head": steps.output,
            "transpose(1, 2): tokens before heads": y,
            "reshape: heads side by side again": merged,
            "output projection": heads.out(merged),
        }
    return [(what, shape(tensor)) for what, tensor in made.items()]


@lru_cache(maxsize=8)
def the_variants(C: int, nh: int, seed: int) -> dict[str, Variant]:
    """The four variants of attention for C channels, with parameters from a seed."""
    variants: dict[str, Variant] = {
        "nothing learned": SimplifiedAttention(),
        "trainable": TrainableAttention(C, C),
        "causal": CausalAttention(C, C),
        "multi-head": MultiHeadAttention(C, nh, n_positions=64),
    }
    return {name: randomize(variant, seed) for name, variant in variants.items()}


def four_variants(x: ArrayLike, nh: int = 1, seed: int = 0) -> dict[str, Tensor]:
    """x (T, C) through each of the four variants of attention, with parameters from a seed."""
    batch = rows(x)[None]  # (1, T, C)
    with torch.inference_mode():
        return {
            name: variant(batch)[0]
            for name, variant in the_variants(batch.shape[-1], nh, seed).items()
        }


def separate_and_fused(C: int, nh: int, T: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The outputs (T, C) of one multi-head module and of separate heads with the same weights."""
    fused = randomize(MultiHeadAttention(C, nh, n_positions=T), seed)
    x = normal(1, T, C, seed=seed + 1)
    with torch.inference_mode():
        return fused(x)[0], separate(fused)(x)[0]


def split_claims() -> list[Claim]:
    """E8: 4 tokens, 768 channels, 12 heads."""
    shapes = [size for _, size in shape_steps(1, 4, 768, 12)]
    return [
        Claim("q before", "(1, 4, 768)", shapes[1]),
        Claim("q after view and transpose", "(1, 12, 4, 64)", shapes[3]),
        Claim("output of each head", "(1, 12, 4, 64)", shapes[7]),
        Claim("heads merged", "(1, 4, 768)", shapes[9]),
        Claim("after the output projection", "(1, 4, 768)", shapes[10]),
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
        "",  # the text doesn't print the mask's shape
        "(2, 12, 6, 6)",
        "(2, 12, 6, 64)",
        "(2, 6, 12, 64)",
        "(2, 6, 768)",
        "(2, 6, 768)",
    )
    steps = shape_steps(2, 6, 768, 12)
    return [Claim(what, size, made) for size, (what, made) in zip(printed, steps, strict=True)]


def separate_claims() -> list[Claim]:
    """E24."""
    fused, apart = separate_and_fused(C=12, nh=3)
    largest = float((fused - apart).abs().max())
    return [Claim("one wide module and separate heads give the same", "", str(largest < 1e-6))]


def split_and_merge(T: int, C: int, nh: int) -> list[Tensor]:
    """T rows of C numbers split into nh heads and merged again; each number is its own index.

    (T, C), then ``view`` (T, nh, hs), ``transpose`` (nh, T, hs), back (T, nh, hs), and ``reshape``
    (T, C). Raises ``RuntimeError`` if nh doesn't divide C.
    """
    x = torch.arange(T * C).view(T, C)
    cut = x.view(T, nh, C // nh)
    by_head = cut.transpose(0, 1)
    back = by_head.transpose(0, 1)
    return [x, cut, by_head, back, back.reshape(T, C)]


class Dropped(NamedTuple):
    """Weights (T, T) after softmax, the same after dropout, and a mask of the ``hidden`` keys."""

    weights: Tensor
    dropped: Tensor
    hidden: Tensor


def drop_weights(
    x: ArrayLike, nh: int, seed: int, p: float, training: bool, drop_seed: int = 0
) -> dict[str, Dropped]:
    """Each variant's weights for x (T, C), parameters from a seed, and dropout with probability p.

    Of many heads, head 0's. Dropout comes after softmax, and drops the same entries in all four.
    """
    by_name, batch = {}, rows(x)[None]  # (1, T, C)
    with torch.inference_mode():
        for name, variant in the_variants(batch.shape[-1], nh, seed).items():
            steps = variant.steps(batch)  # (1, T, T), or (1, nh, T, T)
            weights, masked = (x.flatten(0, -3)[0] for x in (steps.weights, steps.masked_scores))
            dropped = drop(weights, p, training, drop_seed)  # (T, T)
            by_name[name] = Dropped(weights, dropped, masked.isneginf())
    return by_name
