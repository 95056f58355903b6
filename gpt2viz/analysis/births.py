"""When a head began its work: its score at every point of a training, and where it rises.

A head is *born* at the first point whose score is at least half of the last point's. Olsson et al.
2022, "In-context Learning and Induction Heads", follow heads through training in this way: an
induction head comes after the head of a lower layer that looks one token back, on which it builds,
and the loss on what repeats falls as it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from gpt2viz.analysis.batch_scores import attention_weights, token_losses
from gpt2viz.analysis.scores import DECLARED, SCORES, Scores, probe
from gpt2viz.model.checkpoint import Model

#: A head whose last score is less has no habit of that kind to be born with.
LEAST = 0.2
#: The habits that are followed: those of gpt2viz whose score is a weight in [0, 1] on some keys.
HABITS = tuple(score.name for score in DECLARED if score.targets)


class Measured(NamedTuple):
    """A model at one point: ``scores`` (n_layer, nh) by habit, and the mean loss in nats on random
    tokens as they come the ``first`` time and when they come ``again``."""

    scores: Mapping[str, Scores]
    first: float
    again: float


class Birth(NamedTuple):
    """The number of the point at which a head is born, None for one without the habit, and its
    score at the end."""

    point: int | None
    last: float


def measured(model: Model) -> Measured | None:
    """Every habit's score of every head on the probe: random tokens, said twice.

    It is the same text for every point and every sentence. None for want of room for two tokens.
    """
    ids = probe(model.config.vocab_size, model.config.n_positions)
    if not ids:
        return None
    rows = torch.tensor([ids], device=model.network.wte.weight.device)
    by_layer = [weights[0] for weights in attention_weights(model.network, rows)]  # (nh, T, T)
    scores = {name: np.stack([SCORES[name].of(w, ids) for w in by_layer]) for name in HABITS}
    losses, half = token_losses(model.network, rows)[0], len(ids) // 2  # (T − 1,)
    first = float(losses[: half - 1].mean()) if half > 1 else float("nan")
    return Measured(scores, first, float(losses[half:].mean()) if half > 1 else float("nan"))


def birth(scores: Scores) -> Birth:
    """When a head is born, by its scores (P,) at the points of a training, in order."""
    last = float(scores[-1])
    if not last >= LEAST:  # nor where it is NaN
        return Birth(None, last)
    return Birth(int(np.flatnonzero(scores >= last / 2)[0]), last)


def main_habit(last: Mapping[str, Scores], layer: int, head: int) -> str:
    """The habit that a head has most, by the scores (n_layer, nh) of the last point."""
    return max(last, key=lambda name: np.nan_to_num(last[name][layer, head], nan=-1.0))


def partner(last: Mapping[str, Scores], layer: int, head: int) -> tuple[int, int]:
    """The head to see beside one: the other half of the circuit that Olsson et al. 2022 describe.

    For a head that looks one token back, the model's strongest induction head; for all others the
    strongest that looks one token back, in a lower layer if there is one.
    """
    back = main_habit(last, layer, head) == "previous token"
    scores = np.nan_to_num(last["induction" if back else "previous token"], nan=-1.0).copy()
    if not back and layer:
        scores[layer:] = -1.0
    scores[layer, head] = -2.0
    found = divmod(int(scores.argmax()), scores.shape[1])
    return int(found[0]), int(found[1])
