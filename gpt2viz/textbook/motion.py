"""Attention and the stream step by step, each step a tensor: what the Textbook sets in motion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import read_only
from gpt2viz.run.stages import StageName
from gpt2viz.run.trace import Trace, check_run
from gpt2viz.textbook.steps import hide_later, rows


class Closed(NamedTuple):
    """Scores and their softmax (T, T), with the mask in the first rows only."""

    scores: Tensor
    weights: Tensor


class Stop(NamedTuple):
    """A token's vector at one place of the residual stream.

    ``added`` (C,) is what came last and ``stream`` (C,) the sum so far; ``cosine`` compares the
    stream with itself before that, 1 where nothing was before. ``nearest`` are the rows of the
    token table that point most alike, the nearest first, and ``alike`` their cosines.
    """

    key: str
    layer: int | None
    added: Array
    stream: Array
    cosine: float
    nearest: NDArray[np.int64]
    alike: NDArray[np.float64]


def closing(scores: ArrayLike) -> list[Closed]:
    """The mask put into scores (T, T) row by row: T + 1 steps, the first without any of it."""
    scores = rows(scores)
    hidden = hide_later(scores)
    found = []
    for n in range(len(scores) + 1):
        now = torch.cat([hidden[:n], scores[n:]])  # n rows are closed
        found.append(Closed(now, torch.softmax(now, dim=-1)))
    return found


def split_and_merge(T: int, C: int, nh: int) -> list[Tensor]:
    """T rows of C numbers on their way into nh heads and back; each number is its own place.

    (T, C), then ``view`` (T, nh, hs), ``transpose`` (nh, T, hs), back (T, nh, hs), and ``reshape``
    (T, C). Raises ``RuntimeError`` where nh doesn't divide C.
    """
    x = torch.arange(T * C).view(T, C)
    cut = x.view(T, nh, C // nh)
    by_head = cut.transpose(0, 1)
    back = by_head.transpose(0, 1)
    return [x, cut, by_head, back, back.reshape(T, C)]


def stops(model: Model, trace: Trace, position: int, count: int = 5) -> list[Stop]:
    """A token's way through the residual stream: 2 + 2 n_layer stops.

    The row of the token table, then the sum after the position, and after attention and MLP of
    each layer. ``count`` nearest rows are found at each. Raises ``ValueError`` for a trace of
    another model.
    """
    check_run(trace, model)
    places: list[tuple[StageName, int | None, Array]] = [
        ("token_embedding", None, trace.stage("token_embedding")[0, position]),
        ("embedding", None, trace.stage("position_embedding")[position]),
    ]
    for n in range(model.config.n_layer):
        places.append(("residual_mid", n, trace.stage("attention_output", n)[0, position]))
        places.append(("residual_out", n, trace.stage("mlp_output", n)[0, position]))
    streams = np.stack([trace.stage(key, layer)[0, position] for key, layer, _ in places])  # (S, C)
    table = read_only(model.network.wte.weight)  # (n_vocab, C)
    alike = _cosines(streams, table)  # (S, n_vocab)
    order = np.argsort(-np.nan_to_num(alike, nan=-2), axis=1, kind="stable")[:, :count]
    found = []
    for n, (key, layer, added) in enumerate(places):
        cosine = float(_cosines(streams[n : n + 1], streams[max(n - 1, 0)][None])[0, 0])
        near = order[n]
        found.append(Stop(key, layer, added, streams[n], cosine, near, alike[n, near]))
    return found


def _cosines(a: Array, b: Array) -> NDArray[np.float64]:
    """The cosine of every two rows: (S, C), (n, C) -> (S, n); NaN for a row without a length."""
    lengths = np.outer(*(np.linalg.norm(one.astype(np.float64), axis=1) for one in (a, b)))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        found: NDArray[np.float64] = (a @ b.T) / lengths
    return found
