"""Head scores over a batch of texts, and the point in training at which a head emerges.

A head is *born* at the first point whose score is at least half of the last point's. Olsson et al.
2022, "In-context Learning and Induction Heads", follow heads through training in this way: an
induction head emerges after the head of a lower layer that looks one token back, on which it
builds, and the loss on repeated tokens falls as it emerges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gpt2viz.analysis.scores import DECLARED, SCORES, MeasuredOn, Score, Scores, TokenIds
from gpt2viz.arrays import Array
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.transformer import Transformer
from gpt2viz.run.forward import RUN_LOCK, listening
from gpt2viz.run.hooks import network_graph
from gpt2viz.run.stages import module_of


def batch_scores(
    network: Transformer, texts: Mapping[MeasuredOn, Tensor], scores: Iterable[Score]
) -> dict[str, list[Scores]]:
    """Every head's scores, each on the rows of token ids (B, T) that it is measured on.

    By name, n_layer arrays (nh,): the mean over a batch. Rows of the "probe" are those that
    ``repeated_rows`` makes.
    """
    weights = {read: attention_weights(network, rows) for read, rows in texts.items()}
    ids = {read: _token_ids(read, rows) for read, rows in texts.items()}
    return {
        score.name: [
            batch_score(score, layer, ids[score.measured_on])
            for layer in weights[score.measured_on]
        ]
        for score in scores
    }


def batch_score(score: Score, weights: Array, ids: Sequence[TokenIds]) -> Scores:
    """A score's mean over the texts of a batch that define it: (B, nh, T, T), (B, T) -> (nh,).

    NaN where none does.
    """
    by_text = np.stack(
        [score.measure(w, row) for w, row in zip(weights, ids, strict=True)]
    )  # (B, nh)
    with np.errstate(invalid="ignore"):
        mean: Scores = np.nansum(by_text, axis=0) / (~np.isnan(by_text)).sum(axis=0)
    return mean


def _token_ids(read: MeasuredOn, rows: Tensor) -> list[list[int]]:
    """The ids (B, T); the probe's are replaced, so that only its second half repeats a token."""
    B, T = rows.shape
    return [[*range(T // 2)] * 2] * B if read == "probe" else rows.tolist()


def attention_weights(network: Transformer, ids: Tensor) -> list[Array]:
    """The weights of every layer on token ids (B, T): n_layer arrays (B, nh, T, T)."""
    graph = network_graph(network)
    names = [module_of(graph, "weights", layer) for layer in range(len(network.blocks))]
    with RUN_LOCK, torch.inference_mode(), listening(network, names) as made:
        network(ids, explicit=True, last_only=True)
    return [made[name].float().cpu().numpy() for name in names]


def token_losses(network: Transformer, ids: Tensor) -> Array:
    """−ln p of every token but the first, in nats: ids (B, T) -> (B, T − 1)."""
    with RUN_LOCK, torch.inference_mode():
        logits = network(ids[:, :-1])  # (B, T − 1, n_vocab)
        losses = F.cross_entropy(logits.float().transpose(1, 2), ids[:, 1:], reduction="none")
    return np.asarray(losses.cpu().numpy())


def repeated_rows(vocab_size: int, rows: int, period: int, seed: int) -> Tensor:
    """``period`` random tokens, repeated once: (rows, 2 · period)."""
    half = np.random.default_rng(seed).integers(0, vocab_size, (rows, period))
    return torch.from_numpy(np.concatenate([half, half], axis=1))


def probe_rows(vocab_size: int, n_positions: int) -> Tensor:
    """Random tokens on which a model in training is measured: (8, 2 · period), the same each time.

    They have at most 64 tokens, as had the first rows that the bundled model learned from.
    """
    return repeated_rows(vocab_size, 8, min(32, n_positions // 2), seed=1)


#: A head whose last score is lower doesn't have that habit, and is never born.
LEAST = 0.2
#: The habits that are followed: those of gpt2viz whose score is a weight in [0, 1] on some keys.
HABITS = tuple(score.name for score in DECLARED if score.targets)


class Measured(NamedTuple):
    """A model at one point: ``scores`` (n_layer, nh) by habit, and the mean loss in nats on random
    tokens at their ``first`` occurrence and when they occur ``again``."""

    scores: Mapping[str, Scores]
    first: float
    again: float


class Emergence(NamedTuple):
    """The number of the point at which a head is born, None for one without the habit, and its
    score at the end."""

    point: int | None
    last: float


def measure_probe(model: Model) -> Measured | None:
    """Every habit's score of every head, and the losses, on ``probe_rows`` with the mask on.

    The training record has the same numbers. None without room for two tokens.
    """
    rows = probe_rows(model.config.vocab_size, model.config.n_positions).to(model.network.device)
    half = rows.shape[1] // 2
    if not half:
        return None
    ids = _token_ids("probe", rows)[0]  # the same for each row, so scores are of the rows' mean
    by_layer = [w.mean(axis=0) for w in attention_weights(model.network, rows)]  # (nh, T, T)
    scores = {name: np.stack([SCORES[name].function(w, ids) for w in by_layer]) for name in HABITS}
    losses = token_losses(model.network, rows)  # (8, T − 1)
    first = float(losses[:, : half - 1].mean()) if half > 1 else float("nan")
    return Measured(scores, first, float(losses[:, half:].mean()) if half > 1 else float("nan"))


def emergence(scores: Scores) -> Emergence:
    """When a head is born, by its scores (P,) at the points of a training run, in order."""
    last = float(scores[-1])
    if not last >= LEAST:  # nor where it is NaN
        return Emergence(None, last)
    return Emergence(int(np.flatnonzero(scores >= last / 2)[0]), last)


def main_habit(last: Mapping[str, Scores], layer: int, head: int) -> str:
    """A head's strongest habit, by the scores (n_layer, nh) at the last point."""
    return max(last, key=lambda name: np.nan_to_num(last[name][layer, head], nan=-1.0))


def partner(last: Mapping[str, Scores], layer: int, head: int) -> tuple[int, int]:
    """The head to show beside another: its partner in the circuit that Olsson et al. 2022 describe.

    For a head that attends one token back, the model's strongest induction head; for all others the
    strongest that attends one token back, in a lower layer if there is one.
    """
    back = main_habit(last, layer, head) == "previous token"
    scores = np.nan_to_num(last["induction" if back else "previous token"], nan=-1.0).copy()
    if not back and layer:
        scores[layer:] = -1.0
    scores[layer, head] = -2.0
    position = divmod(int(scores.argmax()), scores.shape[1])
    return int(position[0]), int(position[1])
