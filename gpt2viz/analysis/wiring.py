"""The edges between heads that stand above chance, and what one of them does on a text.

An edge is a ``composition`` of two heads: what the first writes goes into the queries, the keys or
the values of the second. Three kinds of evidence speak of it, and none replaces another: the
weights (z, here), what it carries on one text (``carried``, here), and what the answer of the whole
model becomes when this path alone is patched (``direct_paths.patch_path``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Literal, NamedTuple, cast

import numpy as np

from gpt2viz.analysis.composition import Composition, Edge, Measure
from gpt2viz.analysis.explanation import Part, explain_row
from gpt2viz.analysis.folding import Into, reading
from gpt2viz.analysis.looks import hardest_looks
from gpt2viz.analysis.reasons import reason
from gpt2viz.analysis.scores import Scores
from gpt2viz.errors import ArgumentError
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import double
from gpt2viz.run.trace import Trace, check_run

#: How probable chance is to lift even one of a model's pairs above the limit, were z normal.
CHANCE = 0.05


class EdgeName(NamedTuple):
    """Which edge, whatever its numbers; written "0.0:1.4:k"."""

    sender: tuple[int, int]
    receiver: tuple[int, int]
    into: Into

    def __str__(self) -> str:
        (a, b), (c, d) = self.sender, self.receiver
        return f"{a}.{b}:{c}.{d}:{self.into}"


class Wired(NamedTuple):
    """The edges above chance: the strongest ``edges`` of so many ``above``, the strongest first.

    ``limit`` is the z that each exceeds, NaN where there are no pairs. ``pairs`` counts all that
    were compared: every two heads, thrice.
    """

    edges: tuple[Edge, ...]
    above: int
    limit: float
    pairs: int


class Carried(NamedTuple):
    """What an edge carries at one cell of its receiver.

    The receiver's ``query`` looks at ``key`` with ``weight``. Of an edge into queries or keys,
    ``share`` is of all that sets the cell apart from its row's mean in the direction that prevails,
    in all pairs of parts with what the sender wrote (``Reason.shares``): 0 to 1. Of one into
    values it is of the value that is taken there, along its own direction: all parts' sum to 1.
    NaN where there is nothing to share.
    """

    query: int
    key: int
    weight: float
    share: float


def parse_edge(text: str) -> EdgeName:
    """Read "0.0:1.4:k". Raises ``ValueError`` for what is none."""
    found = re.fullmatch(r"(\d+)\.(\d+):(\d+)\.(\d+):([qkv])", text, re.ASCII)
    if not found:
        raise ValueError(text)
    a, b, c, d = map(int, found.groups()[:4])
    return EdgeName((a, b), (c, d), cast(Into, found[5]))


def wired(
    found: Composition,
    by: Measure = "kernel",
    into: Iterable[Into] = ("q", "k", "v"),
    most: int = 20,
) -> Wired:
    """The ``most`` strongest edges above chance, by a measure's z.

    The limit is Bonferroni's: a z that of all the pairs of a model not one exceeds by chance but
    with probability ``CHANCE``, if z is normal. It is the same whichever ways ``into`` are shown.
    """
    every = found.kernel_z if by == "kernel" else found.ratio_z
    pairs = sum(int(np.isfinite(z).sum()) for z in every.values())
    if not pairs:
        return Wired((), 0, float("nan"), 0)
    limit = NormalDist().inv_cdf(1 - CHANCE / pairs)
    above = [
        (-float(every[way][place]), place, way)
        for way in into
        for place in map(tuple, np.argwhere(every[way] > limit).tolist())
    ]
    strongest = sorted(above)[:most]
    edges = tuple(found.edge((a, b), (c, d), way) for _, (a, b, c, d), way in strongest)
    return Wired(edges, len(above), limit, pairs)


def copying_edge(found: Composition, habits: Mapping[str, Scores]) -> Edge | None:
    """The edge that copying is made of: into the keys of the strongest induction head, from the
    strongest head of a lower layer that looks one token back (Elhage et al. 2021).

    ``habits`` are scores (n_layer, nh) by name, as ``head_scores`` has them. None where there is
    no lower layer, or where the scores say nothing.
    """
    copies, back = habits["induction"][1:], habits["previous token"]
    if not np.isfinite(copies).any():
        return None
    layer, head = np.unravel_index(np.nanargmax(copies), copies.shape)
    lower = back[: int(layer) + 1]
    if not np.isfinite(lower).any():
        return None
    sender = np.unravel_index(np.nanargmax(lower), lower.shape)
    return found.edge((int(sender[0]), int(sender[1])), (int(layer) + 1, int(head)), "k")


def carried(model: Model, trace: Trace, edge: Edge, query: int | None = None) -> Carried:
    """What an edge carries where its receiver looks hardest: see ``Carried``.

    From one ``query``, or from the one whose look is the hardest of all. A look is at another
    token that isn't the first; where there is none, the key with the largest weight counts.
    Raises ``ArgumentError`` for an edited run or another model's, ``PlaceError`` for a token that
    isn't there.
    """
    check_run(trace, model)
    if trace.edits:
        raise ArgumentError("this run was edited: what an edge carries is told of a run as it is")
    layer, head = edge.receiver
    weights = trace.stage("weights", layer, head)  # (T, T)
    keys, looks = hardest_looks(weights[None])
    if query is None:
        query = int(looks[0].argmax()) if looks.any() else len(weights) - 1
    row = explain_row(model, trace, layer, head, query)
    key = int(keys[0, query])
    key = int(weights[query].argmax()) if key < 0 else key
    if edge.into == "v":
        share = _of_value(model, trace, edge, key)
    else:
        part = Part("head", *edge.sender)
        side: Literal["query", "key"] = "query" if edge.into == "q" else "key"
        share = reason(row, key).shares.get((side, part), float("nan"))
    return Carried(query, key, float(weights[query, key]), share)


def _of_value(model: Model, trace: Trace, edge: Edge, key: int) -> float:
    """The share of a receiver's value at a key that the sender wrote, along that value."""
    (first, writer), (second, reader) = edge.sender, edge.receiver
    before = trace.stage("residual_out", second - 1)[0, key].astype(np.float64)  # (C,)
    sigma = np.sqrt(before.var() + model.config.layer_norm_epsilon)
    W_O = double(model.merging(first)[0])[writer]  # (hs, C)
    z = trace.stage("head_output", first, writer)[key].astype(np.float64)  # (hs,)
    part = z @ W_O @ reading(model, second, reader, "v")[0] / sigma
    v = trace.stage("v", second, reader)[key].astype(np.float64)  # (hs,)
    size = float(v @ v)
    return float(part @ v) / size if size else float("nan")
