"""What the heads do, over a batch of texts, as ``gpt2viz.analysis.scores`` defines it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gpt2viz.analysis.scores import Read, Score, Scores, TokenIds
from gpt2viz.arrays import Array
from gpt2viz.model.network import GPT2
from gpt2viz.run.forward import TURN


def batch_scores(
    network: GPT2, texts: Mapping[Read, Tensor], wanted: Iterable[Score]
) -> dict[str, list[Scores]]:
    """Scores of every head, each on the rows of token ids (B, T) that it is measured on.

    By name, n_layer arrays (nh,): the mean over a batch. Rows of the "probe" are as
    ``repeated_rows`` makes them.
    """
    weights = {read: attention_weights(network, rows) for read, rows in texts.items()}
    ids = {read: _token_ids(read, rows) for read, rows in texts.items()}
    return {
        score.name: [
            batch_score(score, layer, ids[score.measured_on])
            for layer in weights[score.measured_on]
        ]
        for score in wanted
    }


def batch_score(score: Score, weights: Array, ids: Sequence[TokenIds]) -> Scores:
    """A score's mean over the texts of a batch that have it: (B, nh, T, T), (B, T) -> (nh,).

    NaN where none has it.
    """
    found = np.stack(
        [score.measure(w, row) for w, row in zip(weights, ids, strict=True)]
    )  # (B, nh)
    with np.errstate(invalid="ignore"):
        mean: Scores = np.nansum(found, axis=0) / (~np.isnan(found)).sum(axis=0)
    return mean


def _token_ids(read: Read, rows: Tensor) -> list[list[int]]:
    """The ids (B, T). In the probe only the second half repeats: chance alone draws one twice."""
    B, T = rows.shape
    return [[*range(T // 2)] * 2] * B if read == "probe" else rows.tolist()


def attention_weights(network: GPT2, ids: Tensor) -> list[Array]:
    """The weights of every layer on token ids (B, T): n_layer arrays (B, nh, T, T)."""
    found: list[Array] = []
    taps = [network.get_submodule(f"h.{n}.attn.attend.weights") for n in range(len(network.h))]
    with TURN, torch.inference_mode(), ExitStack() as hooks:
        for tap in taps:
            handle = tap.register_forward_hook(
                lambda _module, _args, out: found.append(out.float().cpu().numpy())
            )
            hooks.callback(handle.remove)
        network(ids, explicit=True, last_only=True)
    return found


def token_losses(network: GPT2, ids: Tensor) -> NDArray[np.float32]:
    """−ln p of every token but the first, in nats: ids (B, T) -> (B, T − 1)."""
    with TURN, torch.inference_mode():
        logits = network(ids[:, :-1])  # (B, T − 1, n_vocab)
        losses = F.cross_entropy(logits.float().transpose(1, 2), ids[:, 1:], reduction="none")
    return np.asarray(losses.cpu().numpy())


def repeated_rows(vocab_size: int, rows: int, period: int, seed: int) -> Tensor:
    """``period`` random tokens said twice: (rows, 2 · period)."""
    half = np.random.default_rng(seed).integers(0, vocab_size, (rows, period))
    return torch.from_numpy(np.concatenate([half, half], axis=1))
