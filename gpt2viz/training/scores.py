"""What the heads do: scores of attention patterns, each in [0, 1].

Definitions after Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", and
Olsson et al. 2022, "In-context Learning and Induction Heads".
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gpt2viz.model import GPT2

Weights = NDArray[np.float32]
Scores = NDArray[np.float64]


def previous_token_score(weights: Weights) -> Scores:
    """Mean weight on the token just before, queries 1 … T−1: (B, nh, T, T) -> (nh,)."""
    scores: Scores = np.diagonal(weights, -1, 2, 3).mean(axis=(0, 2), dtype=np.float64)
    return scores


def first_token_score(weights: Weights) -> Scores:
    """Mean weight on token 0, queries 1 … T−1: (B, nh, T, T) -> (nh,)."""
    scores: Scores = weights[:, :, 1:, 0].mean(axis=(0, 2), dtype=np.float64)
    return scores


def induction_score(weights: Weights, period: int) -> Scores:
    """Mean weight on the token after the earlier occurrence of the query's token.

    ``weights`` (B, nh, T, T) belong to rows that say ``period`` tokens twice, T = 2 · period, so
    that query t looks at t − period + 1: (nh,) for the queries of the second half.
    """
    stripe = np.diagonal(weights, 1 - period, 2, 3)[:, :, 1:]  # queries period … T−1
    scores: Scores = stripe.mean(axis=(0, 2), dtype=np.float64)
    return scores


def attention_weights(network: GPT2, ids: Tensor) -> list[Weights]:
    """The weights of every layer on token ids (B, T): n_layer arrays (B, nh, T, T)."""
    found: list[Weights] = []
    taps = [network.get_submodule(f"h.{n}.attn.attend.weights") for n in range(len(network.h))]
    hooks = [
        tap.register_forward_hook(
            lambda _module, _args, out: found.append(out.float().cpu().numpy())
        )
        for tap in taps
    ]
    try:
        with torch.inference_mode():
            network(ids, explicit=True, last_only=True)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def token_losses(network: GPT2, ids: Tensor) -> NDArray[np.float32]:
    """−ln p of every token but the first, in nats: ids (B, T) -> (B, T − 1)."""
    with torch.inference_mode():
        logits = network(ids[:, :-1])  # (B, T − 1, n_vocab)
        losses = F.cross_entropy(logits.float().transpose(1, 2), ids[:, 1:], reduction="none")
    return np.asarray(losses.cpu().numpy())


def repeated_rows(vocab_size: int, rows: int, period: int, seed: int) -> Tensor:
    """``period`` random tokens said twice: (rows, 2 · period)."""
    half = np.random.default_rng(seed).integers(0, vocab_size, (rows, period))
    return torch.from_numpy(np.concatenate([half, half], axis=1))
