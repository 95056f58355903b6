"""The weights that a run starts from: GPT-2's initialisation, but for one head and the positions.

Left to chance, a network of this size needs far more text than the recipe has before a head looks
one token back, and before that no head can copy (Olsson et al. 2022). So one head is set to do it
from the start, as Trockman & Kolter 2023, "Mimetic Initialization of Self-Attention Layers", set
theirs to what trained networks show, and its queries and keys stay as they are. The rest, the
copying too, is left to training.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gpt2viz.model import GPT2
from gpt2viz.training.recipe import Recipe

SET_HEAD = (0, 0)
"""Layer and head that look back from the start."""
BLOCK_STD = 0.02
EMBEDDING_STD = 0.1
FAST, SLOW = 0.5, 0.2
"""Heights of the position waves: those that tell neighbours apart, and those that tell how far."""
GAIN = 2.0
"""How strongly the first head's queries and keys read the fast waves."""


def new_network(recipe: Recipe) -> GPT2:
    """Fresh weights: normal with 0.02, and 0.02/√(2 L) for the layers that write to the stream.

    That is GPT-2's initialisation (Radford et al. 2019, section 2.3), but for three things: token
    embeddings with 0.1, positions as waves, and head 0 of layer 0, which looks one token back.
    """
    torch.manual_seed(recipe.seed)
    network = GPT2(recipe.config())
    for name, weight in network.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.zeros_(weight)
        elif name.endswith("c_proj.weight"):
            torch.nn.init.normal_(weight, std=BLOCK_STD / math.sqrt(2 * recipe.n_layer))
        elif ".ln_" not in name and "ln_f" not in name:
            torch.nn.init.normal_(weight, std=BLOCK_STD)
    pairs = recipe.n_embd // recipe.n_head // 2
    fast = even_spread(pairs, recipe.n_positions)
    slow = torch.from_numpy(np.geomspace(0.2, 0.01, pairs)).float()
    with torch.no_grad():
        torch.nn.init.normal_(network.wte.weight, std=EMBEDDING_STD)
        network.wpe.weight.zero_()
        network.wpe.weight[:, : 2 * pairs] = FAST * waves(fast, recipe.n_positions)
        network.wpe.weight[:, 2 * pairs : 4 * pairs] = SLOW * waves(slow, recipe.n_positions)
        look_back(network, fast)
    return network


def waves(frequencies: Tensor, n_positions: int) -> Tensor:
    """Sine and cosine of each frequency (F,), in radians a token: (n_positions, 2 F).

    Vaswani et al. 2017, section 3.5: one token further is a turn of each pair by its frequency.
    """
    angles = torch.arange(n_positions)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def even_spread(pairs: int, n_positions: int) -> Tensor:
    """Frequencies (pairs,) between 0.25 and 3.1 whose waves agree at distance 0 and hardly again.

    The best of 3,000 draws: the one whose mean cosine over all other distances peaks lowest.
    """
    draw = np.random.default_rng(0)
    distances = np.arange(1, n_positions)[:, None]
    draws = [np.sort(draw.uniform(0.25, 3.1, pairs)) for _ in range(3000)]
    best = min(draws, key=lambda f: float(np.cos(f * distances).mean(1).max()))
    return torch.from_numpy(best).float()


def look_back(network: GPT2, frequencies: Tensor) -> None:
    """Set head 0 of layer 0: keys read the fast waves, queries read them one token back.

    The score of i for j is then highest at j = i − 1. Frequencies (hs / 2,), in radians a token.
    """
    C, hs = network.config.n_embd, 2 * len(frequencies)
    weight = network.get_parameter("h.0.attn.c_attn.weight")  # (3 C, C): queries, keys, values
    weight[:hs] = 0
    weight[C : C + hs] = 0
    weight[C : C + hs, :hs] = GAIN * torch.eye(hs)
    for n, f in enumerate(frequencies.tolist()):
        turn = torch.tensor([[math.cos(f), -math.sin(f)], [math.sin(f), math.cos(f)]])
        pair = slice(2 * n, 2 * n + 2)
        weight[pair, pair] = GAIN * turn


def keep_set_head(network: GPT2) -> None:
    """Take the gradient from the set head's queries and keys, so that no step changes them."""
    C, hs = network.config.n_embd, network.config.head_dim
    for name in ("h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias"):
        gradient = network.get_parameter(name).grad
        if gradient is not None:
            gradient[:hs] = 0
            gradient[C : C + hs] = 0
