"""What the heads do, over a batch of texts, as ``gpt2viz.analysis.scores`` defines it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gpt2viz.analysis import scores
from gpt2viz.analysis.scores import Scores
from gpt2viz.arrays import Pairs
from gpt2viz.model.network import GPT2

Weights = NDArray[np.float32]


def previous_token_score(weights: Weights) -> Scores:
    """Mean weight on the token just before, queries 1 … T−1: (B, nh, T, T) -> (nh,)."""
    return _on(weights, scores.previous_token, range(weights.shape[-1]))


def same_token_score(weights: Weights) -> Scores:
    """Mean weight on the query itself, queries 1 … T−1: (B, nh, T, T) -> (nh,)."""
    return _on(weights, scores.same_token, range(weights.shape[-1]))


def first_token_score(weights: Weights) -> Scores:
    """Mean weight on token 0, queries 1 … T−1: (B, nh, T, T) -> (nh,)."""
    return _on(weights, scores.first_token, range(weights.shape[-1]))


def induction_score(weights: Weights, period: int) -> Scores:
    """Mean weight on the token after the earlier occurrence of the query's token.

    ``weights`` (B, nh, T, T) belong to rows that say ``period`` tokens twice, T = 2 · period, so
    that query t looks at t − period + 1: (nh,) for the queries of the second half.
    """
    return _on(weights, scores.induction, [*range(period), *range(period)])


def duplicate_token_score(weights: Weights, period: int) -> Scores:
    """Mean weight on the earlier occurrence of the query's token; shapes as ``induction_score``."""
    return _on(weights, scores.duplicate_token, [*range(period), *range(period)])


def _on(weights: Weights, targets: Callable[[Sequence[int]], Pairs], ids: Sequence[int]) -> Scores:
    """The mean over a batch (B, nh, T, T) of a score of ``gpt2viz.analysis.scores``: (nh,)."""
    found: Scores = scores.weight_on(weights, targets(ids)).mean(axis=0)
    return found


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
