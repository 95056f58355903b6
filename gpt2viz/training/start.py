"""The weights that a run starts from: normal draws, and positions as waves. No head is set."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpt2viz.model.network import GPT2
from gpt2viz.training.recipe import Recipe

EMBEDDING_STD = 0.05
WAVE_HEIGHT = 0.2
LONGEST = 1000.0
"""Base of the waves' lengths: they grow from 2π to 1,000 · 2π tokens."""


def new_network(recipe: Recipe) -> GPT2:
    """Fresh weights: normal with 1/√fan_in, half of it for the layers that write to the stream.

    Token embeddings are normal with 0.05, biases 0, and positions are waves (Vaswani et al. 2017,
    section 3.5), learned from there like everything else.
    """
    torch.manual_seed(recipe.seed)
    network = GPT2(recipe.config())
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.zeros_(weight)
            elif name.startswith("h.") and weight.ndim == 2:
                share = 0.5 if name.endswith("c_proj.weight") else 1.0
                torch.nn.init.normal_(weight, std=share / math.sqrt(weight.shape[1]))
        torch.nn.init.normal_(network.wte.weight, std=EMBEDDING_STD)
        network.wpe.weight.copy_(WAVE_HEIGHT * waves(recipe.n_positions, recipe.n_embd))
    return network


def waves(n_positions: int, n_embd: int) -> Tensor:
    """Sine and cosine of ever longer waves, in turn: (n_positions, n_embd)."""
    pairs = (n_embd + 1) // 2
    frequencies = LONGEST ** (-torch.arange(pairs) / pairs)  # (pairs,), radians a token
    angles = torch.arange(n_positions)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :n_embd]
