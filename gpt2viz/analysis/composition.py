"""The wiring of heads: how much of one head's output another one reads.

A later head can read what an earlier one wrote in three ways: into its queries, its keys or its
values (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"). Two measures say
how much, from the weights alone, folded and centred as in ``circuits``:

- The **ratio** ‖W_OV · W‖ / (‖W_OV‖ ‖W‖) of Frobenius norms, W the receiver's W_QK, its transpose
  or its W_OV: TransformerLens' ``all_composition_scores``, "Q", "K" and "V".
- The **kernel**, Σ cos² of the principal angles between the subspace that one writes and the one
  that the other reads (Yamagiwa et al. 2026, arXiv 2601.10266, the Projection Kernel): 0 to hs,
  whatever the sizes of the weights.

Neither means much by itself: any two subspaces overlap by chance. So each has a z, its distance
from chance in standard deviations. Chance is a random rotation of what is written, with the same
singular values: mean and variance of ‖A R B‖² are then known, and nothing is sampled. It rotates
the C directions of the stream, or the C − 1 that LayerNorm's centring leaves; the ratio's z is that
of its square. Heads of a group share keys and values. With RoPE, W_QK is the one at distance 0; the
kernel is the same at any distance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import NormalDist
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from gpt2viz.analysis.circuits import (
    Eigenvalues,
    HeadCircuit,
    Into,
    Ranked,
    head_circuit,
    reading,
    writing,
)
from gpt2viz.analysis.explanation import Part, explain_row
from gpt2viz.analysis.reasons import reason
from gpt2viz.analysis.scores import Scores
from gpt2viz.analysis.top_attention import strongest_links
from gpt2viz.arrays import Numbers
from gpt2viz.errors import ArgumentError
from gpt2viz.labels import pluralize
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import double
from gpt2viz.model.transformer import Norm
from gpt2viz.run.trace import Trace, check_run

#: The Projection Kernel or the ratio of Frobenius norms.
Measure = Literal["kernel", "ratio"]

#: Singular values below this share of the largest count as 0.
_TINY = 1e-9


class Edge(NamedTuple):
    """The overlap of one head's output with another's q, k or v; heads are (layer, head)."""

    sender: tuple[int, int]
    receiver: tuple[int, int]
    into: Into
    ratio: float
    ratio_z: float
    kernel: float
    kernel_z: float

    def z(self, by: Measure) -> float:
        """Its distance above chance by a measure, in standard deviations."""
        return self.kernel_z if by == "kernel" else self.ratio_z

    def __str__(self) -> str:
        (a, b), (c, d) = self.sender, self.receiver
        return f"{a}.{b} → {c}.{d}.{self.into}"


@dataclass(frozen=True, eq=False, repr=False)
class Composition:
    """The composition of every pair of heads, into the receiver's "q", "k" or "v".

    Each array is (n_layer, nh, n_layer, nh), the sender's layer and head first; NaN where the
    receiver's layer isn't later, where a head's weights are 0, and a z where chance allows only
    one value.
    """

    ratio: Mapping[Into, Numbers]
    ratio_z: Mapping[Into, Numbers]
    kernel: Mapping[Into, Numbers]
    kernel_z: Mapping[Into, Numbers]

    def edge(self, sender: tuple[int, int], receiver: tuple[int, int], into: Into) -> Edge:
        """All numbers of one pair.

        Raises ``IndexError`` for a head that doesn't exist, ``KeyError`` for another ``into``.
        """
        index = (*sender, *receiver)
        measures = (self.ratio, self.ratio_z, self.kernel, self.kernel_z)
        return Edge(sender, receiver, into, *(float(measure[into][index]) for measure in measures))

    def strongest(
        self,
        n: int = 20,
        *,
        of: tuple[int, int] | None = None,
        into: Iterable[Into] = ("q", "k", "v"),
    ) -> tuple[Edge, ...]:
        """The ``n`` pairs furthest above chance by the kernel's z, of all or ``of`` one head."""
        ranked: list[tuple[float, Edge]] = []
        for way in into:
            z = self.kernel_z[way]
            for a, b, c, d in np.argwhere(z > 0).tolist():
                if of in (None, (a, b), (c, d)):
                    ranked.append((-float(z[a, b, c, d]), self.edge((a, b), (c, d), way)))
        return tuple(edge for _, edge in sorted(ranked)[:n])

    def __repr__(self) -> str:
        pairs = int(np.isfinite(self.kernel["q"]).sum())
        best = ", ".join(f"{edge} (z {edge.kernel_z:.1f})" for edge in self.strongest(3))
        return f"Composition: {pluralize(pairs, 'pairs')} of heads; above chance most {best or '–'}"


def composition(
    model: Model, progress: Callable[[float], object] = lambda _share: None
) -> Composition:
    """Q-, K- and V-composition of every pair of heads, measured as this module describes.

    ``progress`` is called after each layer with the share done; an exception it raises ends this.
    """
    n_layer, nh = model.config.n_layer, model.config.n_head
    measures = [
        {way: np.full((n_layer, nh, n_layer, nh), np.nan) for way in get_args(Into)}
        for _measure in fields(Composition)
    ]
    wrote: list[_Layer] = []
    for layer in range(n_layer):
        for way in get_args(Into) if layer else ():
            reads = _reads(model, layer, way)
            for n, sender in enumerate(wrote):
                for measure, values in zip(measures, _measure(sender, reads), strict=True):
                    measure[way][n, :, layer] = values
        wrote.append(_writes(model, layer))
        progress((layer + 1) ** 2 / n_layer**2)
    return Composition(*measures)


class _Side:
    """Matrices (nh, C, hs) of one layer's heads, whose columns span what is written or read."""

    def __init__(self, matrices: Numbers, n_directions: int) -> None:
        self.matrices, self.n_directions = matrices, n_directions
        squares = np.matmul(matrices.transpose(0, 2, 1), matrices)  # (nh, hs, hs)
        self.total = np.einsum("hcc->h", squares)  # Σ s² over the singular values s
        self.fourth = np.einsum("hcd,hcd->h", squares, squares)  # Σ s⁴

    def overlap(self, other: _Side) -> Numbers:
        """‖Aᵀ B‖² of every pair: (nh, nh)."""
        nh, C, hs = self.matrices.shape
        rows = self.matrices.transpose(0, 2, 1).reshape(nh * hs, C)
        columns = other.matrices.transpose(1, 0, 2).reshape(C, nh * hs)
        overlap: Numbers = np.square(rows @ columns).reshape(nh, hs, nh, hs).sum(axis=(1, 3))
        return overlap

    def z(self, other: _Side, overlap: Numbers) -> Numbers:
        """An overlap's distance from its mean over all rotations R of ‖Aᵀ R B‖², in standard
        deviations: (nh, nh), NaN where all rotations give the same value.

        With S = A Aᵀ and T = B Bᵀ in n dimensions the mean is tr S tr T / n, the variance
        2 (tr S² − (tr S)²/n) (tr T² − (tr T)²/n) / ((n − 1)(n + 2)).
        """
        n = self.n_directions
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.outer(self.total, other.total) / n
            variance = np.outer(self._anisotropy(n), other._anisotropy(n)) * 2 / ((n - 1) * (n + 2))
            z: Numbers = (overlap - mean) / np.sqrt(variance)
        return np.where(variance > 0, z, np.nan)

    def _anisotropy(self, n: int) -> Numbers:
        """tr S² − (tr S)²/n, 0 where S is the same in every direction: (nh,)."""
        uneven = self.fourth - self.total**2 / n
        return np.where(uneven > _TINY * self.fourth, uneven, 0)


class _Layer:
    """A layer's heads at one side: their matrices as they are, and with all singular values 1."""

    def __init__(self, model: Model, matrices: Sequence[Numbers]) -> None:
        n = model.config.n_embd - Norm.of(model.network.final_norm).centred
        self.sized = _Side(np.stack(matrices), n)
        self.even = _Side(np.stack([_basis(matrix) for matrix in matrices]), n)


def _measure(sender: _Layer, receiver: _Layer) -> tuple[Numbers, ...]:
    """Every measure of two layers' heads, in the order of ``Composition``: (nh, nh) each."""
    sizes = np.outer(sender.sized.total, receiver.sized.total)
    sizes = np.where(sizes > 0, sizes, np.nan)
    squared = sender.sized.overlap(receiver.sized) / sizes
    kernel = sender.even.overlap(receiver.even)
    return (
        np.sqrt(squared),
        sender.sized.z(receiver.sized, squared * sizes),
        np.where(sizes > 0, kernel, np.nan),
        sender.even.z(receiver.even, kernel),
    )


def _writes(model: Model, layer: int) -> _Layer:
    """W_OVᵀ of every head of a layer, up to a rotation on its other side."""
    heads = range(model.config.n_head)
    return _Layer(
        model,
        [_half(writing(model, layer, n).T, reading(model, layer, n, "v").weight) for n in heads],
    )


def _reads(model: Model, layer: int, way: Into) -> _Layer:
    """W_QK, its transpose or W_OV of every head of a layer, up to the same kind of rotation."""
    halves = []
    for n in range(model.config.n_head):
        read = reading(model, layer, n, way).weight
        beyond = (
            writing(model, layer, n).T
            if way == "v"
            else reading(model, layer, n, "k" if way == "q" else "q").weight
        )
        halves.append(_half(read, beyond))
    return _Layer(model, halves)


def _half(here: Numbers, beyond: Numbers) -> Numbers:
    """A Bᵀ of two matrices (C, hs), up to a rotation on the side of B: (C, hs)."""
    _, r = np.linalg.qr(beyond)
    half: Numbers = here @ r.T
    return half


def _basis(matrix: Numbers) -> Numbers:
    """An orthonormal basis of the columns' span (C, hs), padded with zeros."""
    basis, sizes, _ = np.linalg.svd(matrix, full_matrices=False)
    nonzero: Numbers = basis * (sizes > _TINY * sizes[0])
    return nonzero


#: The probability that chance lifts even one of a model's pairs above the limit, if z is normal.
CHANCE = 0.05


class EdgeName(NamedTuple):
    """An edge without its numbers; written "0.0:1.4:k"."""

    sender: tuple[int, int]
    receiver: tuple[int, int]
    into: Into

    def __str__(self) -> str:
        (a, b), (c, d) = self.sender, self.receiver
        return f"{a}.{b}:{c}.{d}:{self.into}"


class Wired(NamedTuple):
    """The strongest ``edges`` above chance, the strongest first; ``above`` counts all of those.

    ``limit`` is the z that each exceeds, NaN where there are no pairs. ``pairs`` counts all that
    were compared: every pair of heads, three times.
    """

    edges: tuple[Edge, ...]
    above: int
    limit: float
    pairs: int


class Carried(NamedTuple):
    """An edge's share of one cell of its receiver.

    The receiver's ``query`` attends to ``key`` with ``weight``. For an edge into queries or keys,
    ``share`` is the sender's part of the cell's difference from its row's mean, in the
    prevailing direction and in all its pairs of parts (``Reason.shares``): 0 to 1. For an edge into
    values it is the sender's part of the value read there, along that value's direction: all parts'
    shares sum to 1. NaN if there is nothing to share.
    """

    query: int
    key: int
    weight: float
    share: float


def parse_edge(text: str) -> EdgeName:
    """Parse "0.0:1.4:k". Raises ``ValueError`` for anything else."""
    match = re.fullmatch(r"(\d+)\.(\d+):(\d+)\.(\d+):([qkv])", text, re.ASCII)
    if not match:
        raise ValueError(text)
    a, b, c, d = map(int, match.groups()[:4])
    return EdgeName((a, b), (c, d), cast(Into, match[5]))


def top_edges(
    composition: Composition,
    by: Measure = "kernel",
    into: Iterable[Into] = ("q", "k", "v"),
    most: int = 20,
) -> Wired:
    """The ``most`` strongest edges above chance, by a measure's z.

    The limit is Bonferroni's: by chance even one of a model's pairs exceeds it only with
    probability ``CHANCE``, if z is normal. It is the same whichever ways ``into`` are shown.
    """
    every = composition.kernel_z if by == "kernel" else composition.ratio_z
    pairs = sum(int(np.isfinite(z).sum()) for z in every.values())
    if not pairs:
        return Wired((), 0, float("nan"), 0)
    limit = NormalDist().inv_cdf(1 - CHANCE / pairs)
    above = [
        (-float(every[way][index]), index, way)
        for way in into
        for index in map(tuple, np.argwhere(every[way] > limit).tolist())
    ]
    strongest = sorted(above)[:most]
    edges = tuple(composition.edge((a, b), (c, d), way) for _, (a, b, c, d), way in strongest)
    return Wired(edges, len(above), limit, pairs)


def copying_edge(composition: Composition, habits: Mapping[str, Scores]) -> Edge | None:
    """The edge of the copying circuit: into the keys of the strongest induction head, from the
    strongest head of a lower layer that attends one token back (Elhage et al. 2021).

    ``habits`` are scores (n_layer, nh) by name, as from ``head_scores``. None if there is no lower
    layer, or no score is finite.
    """
    copies, back = habits["induction"][1:], habits["previous token"]
    if not np.isfinite(copies).any():
        return None
    layer, head = np.unravel_index(np.nanargmax(copies), copies.shape)
    lower = back[: int(layer) + 1]
    if not np.isfinite(lower).any():
        return None
    sender = np.unravel_index(np.nanargmax(lower), lower.shape)
    return composition.edge((int(sender[0]), int(sender[1])), (int(layer) + 1, int(head)), "k")


def edge_share(model: Model, trace: Trace, edge: Edge, query: int | None = None) -> Carried:
    """The share of an edge at the strongest attention of its receiver: see ``Carried``.

    At one ``query``, or at the one with the largest weight on another token that isn't the first.
    For a query without such a key, its key with the largest weight counts.
    Raises ``ArgumentError`` for an edited run or another model's, ``PlaceError`` for a token that
    doesn't exist.
    """
    check_run(trace, model)
    if trace.edits:
        raise ArgumentError("this run was edited: an edge is measured in an unedited run")
    layer, head = edge.receiver
    weights = trace.stage("weights", layer, head)  # (T, T)
    keys, peaks = strongest_links(weights[None])
    if query is None:
        query = int(peaks[0].argmax()) if peaks.any() else len(weights) - 1
    row = explain_row(model, trace, layer, head, query)
    key = int(keys[0, query])
    key = int(weights[query].argmax()) if key < 0 else key
    if edge.into == "v":
        share = _value_share(model, trace, edge, key)
    else:
        part = Part("head", *edge.sender)
        side: Literal["query", "key"] = "query" if edge.into == "q" else "key"
        share = reason(row, key).shares.get((side, part), float("nan"))
    return Carried(query, key, float(weights[query, key]), share)


def _value_share(model: Model, trace: Trace, edge: Edge, key: int) -> float:
    """The share of a receiver's value at a key that the sender wrote, along that value."""
    (first, writer), (second, reader) = edge.sender, edge.receiver
    before = trace.stage("residual_out", second - 1)[0, key].astype(np.float64)  # (C,)
    sigma = Norm.of(model.network.blocks[second].attention_norm).sigma(before)
    W_O = double(model.output_weights(first)[0])[writer]  # (hs, C)
    z = trace.stage("head_output", first, writer)[key].astype(np.float64)  # (hs,)
    part = z @ W_O @ reading(model, second, reader, "v").weight / sigma
    v = trace.stage("v", second, reader)[key].astype(np.float64)  # (hs,)
    size = float(v @ v)
    return float(part @ v) / size if size else float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class VirtualHead:
    """Two heads as one; ``sender`` and ``receiver`` are (layer, head): see ``virtual_head``."""

    sender: tuple[int, int]
    receiver: tuple[int, int]
    _circuit: HeadCircuit = field(repr=False)
    """The sender with the W_O of both: W_O of the sender, then W_V and W_O of the receiver."""

    @property
    def ov_eigenvalues(self) -> Eigenvalues:
        """The eigenvalues of both heads' full OV circuit, without zeros that all have: (hs,)."""
        return self._circuit.ov_eigenvalues

    @property
    def copying_score(self) -> float:
        """Σλ / Σ|λ| over ``ov_eigenvalues``, from −1 to 1, as a single head's."""
        return self._circuit.copying_score

    def writes(self, token: int | str, k: int = 10) -> Ranked:
        """The ``k`` tokens whose logits both raise most, and least, if the sender attends to a
        token and the receiver to the position where the sender wrote; as ``HeadCircuit.writes``.
        """
        return self._circuit.writes(token, k)

    def pattern(self, trace: Trace) -> Numbers:
        """The weight of each query on each key through both heads, on a text: (T, T).

        The receiver's weights times the sender's; rows sum to 1.
        """
        first, second = (
            trace.stage("weights", *head).astype(np.float64)
            for head in (self.sender, self.receiver)
        )
        return second @ first

    def __repr__(self) -> str:
        (a, b), (c, d) = self.sender, self.receiver
        return f"VirtualHead: {a}.{b}, then {c}.{d}, copying {self.copying_score:+.2f}"


def virtual_head(model: Model, sender: tuple[int, int], receiver: tuple[int, int]) -> VirtualHead:
    """Compose two heads, (layer, head) each, into one: the receiver reads what the sender wrote.

    Raises ``PlaceError`` for a head that doesn't exist, ``ArgumentError`` for a receiver whose
    layer isn't later.
    """
    first, second = head_circuit(model, *sender), head_circuit(model, *receiver)
    if receiver[0] <= sender[0]:
        raise ArgumentError(
            f"head {receiver[0]}.{receiver[1]} reads before head {sender[0]}.{sender[1]} has "
            "written"
        )
    both = replace(first, W_O=first.W_O @ second.W_V @ second.W_O)
    return VirtualHead(sender, receiver, both)
