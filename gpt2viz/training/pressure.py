"""Auxiliary losses on heads: nudges for some steps, and a loss on similar heads.

A nudge is an extra loss on one head for some steps of a run. A head that was nudged to attend to
the previous token keeps doing so afterwards, since copying relies on it (Olsson et al. 2022); a
head that nothing uses may lose the habit again. Heads of a small model are often copies of each
other; a loss on pairs with nearly equal weights on the same rows makes them differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gpt2viz.analysis.scores import SCORES
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.model.network import GPT2
from gpt2viz.run.forward import listening
from gpt2viz.training.recipe import Nudge

ALIKE_FROM = 0.7
"""The least cosine similarity of two heads' weights for them to count as doing the same."""
ALIKE_TOKENS = 96
"""The tokens of a row over which the similarity is measured."""


def watch(network: GPT2) -> AbstractContextManager[Mapping[str, Tensor]]:
    """Collect every layer's queries and keys (B, nh, T, hs) of the last forward pass in the block,
    in the autograd graph, by the names of their modules."""
    layers = range(len(network.h))
    return listening(network, [f"h.{n}.attn.{name}" for n in layers for name in "qk"])


def _weights(seen: Mapping[str, Tensor], layer: int, rows: slice, n_tokens: int) -> Tensor:
    """Attention weights (rows, nh, n_tokens, n_tokens) of the first tokens of some rows."""
    q, k = (seen[f"h.{layer}.attn.{name}"][rows, :, :n_tokens].float() for name in "qk")
    scaled = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (rows, nh, T, T)
    hidden = hidden_pairs(torch.arange(q.shape[2], device=q.device), causal=True)  # (T, T)
    return F.softmax(scaled.masked_fill(hidden, -math.inf), dim=-1)


def nudge_loss(seen: Mapping[str, Tensor], nudge: Nudge, read: np.ndarray) -> Tensor:
    """Mean −ln of the head's weight on its habit's targets, over the queries that have any.

    ``read`` (B, T) are the token ids of the forward pass. The first query is left out. Raises
    ``KeyError`` if there is no such habit, ``ValueError`` if it has no targets.
    """
    T = read.shape[1]
    habit = SCORES[nudge.toward].targets
    if habit is None:
        raise ValueError(f"{nudge.toward} has no targets that a head could be nudged toward")
    weights = _weights(seen, nudge.layer, slice(None), T)[:, nudge.head]  # (B, T, T)
    targets = torch.from_numpy(np.stack([habit(row.tolist()) for row in read]))
    targets[:, 0] = False
    targets = targets.to(weights.device)
    on = (weights * targets).sum(-1)[targets.any(-1)]
    return -(on + 1e-6).log().mean() if len(on) else weights.sum() * 0


def alike_loss(seen: Mapping[str, Tensor], rows: slice) -> Tensor:
    """Sum over all pairs of heads of (cosine similarity − ``ALIKE_FROM``)², if that is positive.

    The cosine is ``gpt2viz.analysis.patterns``'s, over the first tokens of ``rows``.
    """
    layers = range(len(seen) // 2)
    weights = torch.cat([_weights(seen, n, rows, ALIKE_TOKENS) for n in layers], dim=1)
    heads = weights[:, :, 1:].transpose(0, 1).flatten(1)  # (H, rows · (T − 1) · T)
    unit = F.normalize(heads, dim=-1)
    over = (unit @ unit.T - ALIKE_FROM).clamp(min=0).triu(diagonal=1)
    return over.square().sum()
