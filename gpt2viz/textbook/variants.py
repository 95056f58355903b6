"""Attention four times over, each form one idea further, and then as separate heads.

No weights, weights, a mask, many heads: the order of S. Raschka, "Build a Large Language Model
(From Scratch)" (2024), chapter 3. Shapes: B texts, T tokens, C channels, nh heads, hs channels of
one head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gpt2viz.errors import ContextError, GPT2VizError


class ShapeError(GPT2VizError):
    """A tensor that doesn't fit a module."""


def mix(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """softmax(q kᵀ / √hs + mask) v: (…, T, hs) -> (…, T, hs)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (…, T, T)
    if causal:
        later = torch.ones_like(scores, dtype=torch.bool).triu(diagonal=1)
        scores = scores.masked_fill(later, -math.inf)
    return torch.softmax(scores, dim=-1) @ v


class SimplifiedAttention(nn.Module):
    """Each vector is its own query, key and value, unscaled: (B, T, C) -> (B, T, C)."""

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(x @ x.transpose(-2, -1), dim=-1)  # (B, T, T)
        return weights @ x


class TrainableAttention(nn.Module):
    """Queries, keys and values are learned from x: (B, T, C) -> (B, T, hs)."""

    causal = False

    def __init__(self, C: int, hs: int, bias: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(C, hs, bias=bias)
        self.key = nn.Linear(C, hs, bias=bias)
        self.value = nn.Linear(C, hs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return mix(self.query(x), self.key(x), self.value(x), self.causal)


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

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        q, k, v = (self.split(make(x)) for make in (self.query, self.key, self.value))
        heads = mix(q, k, v, causal=True)  # (B, nh, T, hs)
        return self.out(heads.transpose(1, 2).reshape(x.shape))  # type: ignore[no-any-return]

    def check(self, x: Tensor) -> None:
        expected, given = self.query.in_features, x.shape[-1]
        if given != expected:
            raise ShapeError(
                f"x has {given} channels, shape {tuple(x.shape)}; this module reads {expected}. "
                f"Give it x of shape (B, T, {expected}), or build the module for {given} channels."
            )
        if x.shape[1] > self.n_positions:
            raise ContextError(x.shape[1], self.n_positions)


class SeparateHeads(nn.Module):
    """A small attention of its own for every head, side by side: (B, T, C) -> (B, T, C).

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
