"""The tiny crane: a GPT-2 that reads "A crane ate fish" with numbers simple enough for a pencil.

Five tokens, four channels, one layer of two heads with two channels each, and an MLP of three
neurons. All weights were set by hand, none was learned. The first two channels are how thing-like
and how action-like a word is, the last two are a clock hand that makes a quarter turn at each
position. It is GPT-2 (Radford et al. 2019) except for whatever would spoil whole numbers: there is
no LayerNorm, ReLU replaces GELU, only the MLP's first layer has biases, and it has fewer neurons
than four times the channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.textbook import attention, embeddings, logits, mlp
from gpt2viz.textbook.attention import Steps
from gpt2viz.textbook.tensors import rows

VOCABULARY = ("A", "crane", "ate", "fish", ".")
IDS = (0, 1, 2, 3)
SENTENCE = tuple(VOCABULARY[id] for id in IDS)
CHANNELS = ("thing", "action", "hand →", "hand ↑")


#: All weights of the tiny crane by name. C = 4 channels, hs = 2, F = 3 neurons. ``tokens``
#: (n_vocab, C) has a row per token, ``positions`` (n_positions, C) one per position. ``q0``, ``k0``
#: and ``v0`` (hs, C) are head 0's. ``merge`` (C, nh · hs) is W_O. The MLP's first layer is
#: ``widen`` (F, C + 1), with the biases in the last column, its second ``back`` (C, F).
Tables = Mapping[str, ArrayLike]

#: W_V: the first two channels of a vector, unchanged.
_WORD = ((1, 0, 0, 0), (0, 1, 0, 0))

#: The weights set by hand. A fish is a thing, and to fish is an action. The hand points up, right,
#: down, left. Head 0 attends to the thing that acts: its query matches a thing that isn't an
#: action. Head 1 attends to the previous word: its query is the hand, turned back by a quarter. W_O
#: keeps half of the thing that head 0 finds, and half of the action of head 1. There is a neuron
#: for a thing without an action, for an action, and for a thing with one.
MADE: Tables = {
    "tokens": ((-1, 1, 0, 0), (2, 0, 0, 0), (0, 2, 0, 0), (2, 1, 0, 0), (-1, -1, 0, 0)),
    "positions": ((0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 0, -1), (0, 0, -1, 0)),
    **{"q0": ((1, 1, 0, 0), (1, 1, 0, 0)), "k0": ((1, 0, 0, 0), (0, -2, 0, 0)), "v0": _WORD},
    **{"q1": ((0, 0, 0, -2), (0, 0, 2, 0)), "k1": ((0, 0, 2, 0), (0, 0, 0, 2)), "v1": _WORD},
    "merge": ((0.5, 0, 0, 0), (0, 0, 0, 0.5), (0, 0, 0, 0), (0, 0, 0, 0)),
    "widen": ((1, -2, 0, 0, 0), (-1, 1, 0, 0, 0), (1, 2, 0, 0, -6)),
    "back": ((-1, 1, -6), (1, -1, -6), (0, 0, 0), (0, 0, 0)),
}


class Reading(NamedTuple):
    """The tiny crane's tensors for its sentence, in order. C = 4 channels, F = 3 neurons.

    ``tokens``, ``positions``, ``x``, ``attention``, ``mid``, ``mlp`` and ``end`` are (T, C),
    ``merged`` (T, nh · hs), ``widened`` and ``bent`` (T, F), ``logits`` and ``probabilities``
    (T, n_vocab). ``free`` is head 0 without the mask.
    """

    tokens: Tensor
    positions: Tensor
    x: Tensor
    free: Steps
    heads: tuple[Steps, ...]
    merged: Tensor
    attention: Tensor
    mid: Tensor
    widened: Tensor
    bent: Tensor
    mlp: Tensor
    end: Tensor
    logits: Tensor
    probabilities: Tensor


def look(x: Tensor, tables: Tables, head: int, causal: bool = True) -> Steps:
    """Vectors (T, C) through one head."""
    q, k, v = (attention.project(x, tables[f"{part}{head}"]) for part in "qkv")
    return attention.attend(q, k, v, causal=causal)


def run(tables: Tables = MADE) -> Reading:
    """Run the sentence, from its ids to the probabilities of the next token."""
    tokens = embeddings.look_up(tables["tokens"], IDS)
    positions = rows(tables["positions"])[: len(IDS)]
    x = tokens + positions
    free = look(x, tables, 0, causal=False)
    heads = tuple(look(x, tables, n) for n in (0, 1))
    merged = torch.cat([head.output for head in heads], dim=-1)
    added = attention.project(merged, tables["merge"])
    mid = x + added
    widen = rows(tables["widen"])
    widened = mlp.linear(mid, widen[:, :-1], widen[:, -1])
    bent = mlp.relu(widened)
    back = attention.project(bent, tables["back"])
    end = mid + back
    scores = logits.logits(end, tables["tokens"])
    return Reading(
        *(tokens, positions, x, free, heads, merged, added, mid),
        *(widened, bent, back, end, scores, logits.next_token(scores)),
    )
