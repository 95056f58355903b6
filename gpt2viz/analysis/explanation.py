"""Why a head attends where it does: a raw score decomposed by what wrote to query and key.

The stream at a token is a sum of what the embeddings, the earlier heads, their biases and the
earlier MLPs wrote there (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits").
With a norm's scale fixed at the run's own, the norm is linear, and so are W_Q, W_K and, in some
models, RoPE: query and key are sums of parts, and q·k is a sum over pairs of them. Nothing is
trained or left over. Fixing the scale is a convention: removing a part would change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpt2viz.analysis.circuits import Positions, Reading, reading, rotate
from gpt2viz.analysis.sampling import softmax
from gpt2viz.arrays import Array, Numbers, Pairs
from gpt2viz.errors import ArgumentError, PlaceError
from gpt2viz.labels import pluralize
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import double, to_numpy
from gpt2viz.model.transformer import Norm
from gpt2viz.run.edits import attention_is_off, check_decomposable, head_scale_factors
from gpt2viz.run.stages import StageName, stream_before
from gpt2viz.run.trace import Trace, check_run

Side = Literal["query", "key"]
PartKind = Literal["token", "position", "head", "bias", "mlp", "constant", "rounding"]


class Part(str):
    """A part of a query, key, value or logit, by what wrote it: equal to its name, "head 0.0".

    ``kind`` "head" has a ``layer`` and a ``head``; "bias" (b_O of a layer) and
    "mlp" have a ``layer``; the others have neither. "rounding" is that of the run's float32.
    """

    kind: PartKind
    layer: int | None
    head: int | None

    def __new__(cls, kind: PartKind, layer: int | None = None, head: int | None = None) -> Part:
        number = ("" if layer is None else f" {layer}") + ("" if head is None else f".{head}")
        part = super().__new__(cls, kind + number)
        part.kind, part.layer, part.head = kind, layer, head
        return part

    @property
    def of_head(self) -> tuple[int, int]:
        """Layer and head. Raises ``ArgumentError`` for a part that no head wrote."""
        if self.layer is None or self.head is None:
            raise ArgumentError(f"{str(self)!r} isn't a head's part")
        return self.layer, self.head


@dataclass(frozen=True, eq=False, repr=False)
class ScoreExplanation:
    """One raw score as a sum over pairs of parts.

    ``names`` are the n parts, by what wrote, each a ``Part``: "token", "position", then of every
    earlier layer its heads ("head 0.0"), their b_O ("bias 0") and "mlp 0"; last
    "constant", which is the norm's bias through W_Q or W_K, and b_Q or b_K. There is no "position"
    in models with RoPE, and no "bias" without b_O. A head's b_V belongs to the head. ``table``
    (n, n) has the query's parts as rows and the key's as columns; it sums to ``score``,
    the run's own q·k, except for float32's rounding in the run.
    """

    layer: int
    head: int
    query: int
    key: int
    names: tuple[Part, ...]
    table: Numbers
    score: float
    _stream: _Stream = field(repr=False)
    _q: Numbers = field(repr=False)
    _k: Numbers = field(repr=False)

    def opened(self, side: Side, name: str) -> Numbers:
        """A head's part, split by the tokens that it attended to: (T, n), T the text's tokens.

        With ``side`` "key", row t is what the head's weight on token t, times that token's value,
        adds to the head's column of ``table``, across the query's parts; over the tokens it sums
        to that column. "query" splits the head's row, across the key's parts. A head that an
        edit switched off has zeros. Raises ``ArgumentError`` for a part other than a head, and for
        a head whose output is a mean, which comes from no token of this text.
        """
        position = self.key if side == "key" else self.query
        by_token = self._stream.opened(side, position, self._head_of(name))  # (T, hs)
        return by_token @ (self._q if side == "key" else self._k).T

    def _head_of(self, name: str) -> tuple[int, int]:
        heads = [part for part in self.names if part.kind == "head"]
        if name not in heads:
            before = f"{heads[0]} to {heads[-1]}" if heads else "none, this is layer 0"
            raise ArgumentError(f"{name!r} can't be opened; the heads before are: {before}")
        return next(part.of_head for part in heads if part == name)

    def __repr__(self) -> str:
        return (
            f"ScoreExplanation: {self.score:.4f} of layer {self.layer}, head {self.head}, query "
            f"{self.query}, key {self.key}, from {len(self.names)} × {len(self.names)} parts"
        )


@dataclass(frozen=True, eq=False, repr=False)
class RowExplanation:
    """The raw scores of one query with every key that it sees, each a sum over pairs of parts.

    ``keys`` (S,) are those keys' positions and ``scores`` (S,) the run's own numbers. Softmax
    ignores what they all share: ``deviation`` leaves it out, and explains the weights. ``names``
    are as for ``ScoreExplanation``. The parts of a single key are computed on demand: nothing of
    size (S, n) is stored.
    """

    layer: int
    head: int
    query: int
    names: tuple[Part, ...]
    keys: NDArray[np.int64]
    scores: Numbers
    divisor: float
    """The divisor of the scores before the softmax: √hs, and more in some models."""
    _stream: _Stream = field(repr=False)
    _q: Numbers = field(repr=False)

    @property
    def trace(self) -> Trace:
        """The run whose scores they are."""
        return self._stream.trace

    @cached_property
    def weights(self) -> Numbers:
        """The softmax of the row: (S,), the attention weights of the run."""
        return softmax(self.scores / self.divisor)

    @cached_property
    def mean(self) -> Numbers:
        """The table of the row's mean score, over the keys that the query sees: (n, n)."""
        return self._q @ self._stream.mean_parts("key", self.keys).T

    def table(self, key: int) -> Numbers:
        """The score with the key at a position, by pairs of parts: (n, n).

        Raises ``PlaceError`` for a key that the query doesn't see.
        """
        return self.at(key).table

    def deviation(self, key: int) -> Numbers:
        """``table`` minus ``mean``: what sets this key apart from the others, (n, n)."""
        return self.table(key) - self.mean

    def at(self, key: int) -> ScoreExplanation:
        """The score with one key, to be split further. Raises ``PlaceError`` as ``table`` does."""
        score = float(self.scores[self.row_of(key)])
        return self._stream.score(self.query, self._q, key, score)

    def ablated_weight(
        self, key: int, *, query_part: str | None = None, key_part: str | None = None
    ) -> float:
        """The weight that ``key`` would have if a pair of parts added nothing to any score.

        Recomputes the row's softmax, with the norm's scale fixed. Given one part, all its pairs.
        Raises ``PlaceError`` as ``table`` does, ``ArgumentError`` for an unknown part or none. See
        ``ablated_part_weight`` for removing a part from the query and from every key.
        """
        if query_part is None and key_part is None:
            raise ArgumentError("name a part of the query, of the key, or one of each")
        n = self.row_of(key)
        query = self._q.sum(axis=0) if query_part is None else self._q[self._index_of(query_part)]
        part = None if key_part is None else self._index_of(key_part)
        less = self._stream.dot_keys(self.keys, query, part)
        return float(softmax((self.scores - less) / self.divisor)[n])

    def ablated_part_weight(self, key: int, part: str) -> float:
        """The weight that ``key`` would have if a part had written nothing, at fixed norm scales.

        Recomputes the row's softmax without the part in the query and in every key. Raises what
        ``ablated_weight`` does.
        """
        n, index = self.row_of(key), self._index_of(part)
        of_query = self._stream.dot_keys(self.keys, self._q[index])  # (S,)
        rest = self._q.sum(axis=0) - self._q[index]  # what both share is subtracted once
        less = of_query + self._stream.dot_keys(self.keys, rest, index)
        return float(softmax((self.scores - less) / self.divisor)[n])

    def by_token(self, query_parts: Pairs, key: int, carried: Mapping[Part, Array]) -> Numbers:
        """The addition to q·k of each token of the vocabulary in place of a key's own: (n_vocab,).

        ``query_parts`` (n,) selects parts of the query; ``carried`` has the key's parts that carry
        the token: "token", and heads by their names, with their weights (T,) at its positions.
        Only the embedding is exchanged; all norms' scales are fixed, as everywhere here.
        """
        return self._stream.by_token(key, self._q[query_parts].sum(axis=0), carried)

    @cached_property
    def by_distance(self) -> Numbers | None:
        """The raw scores that the mean of the row's keys would have at the position of each: (S,).

        Keys are averaged before RoPE, so the scores differ only by distance. None in models
        without RoPE.
        """
        model, site = self._stream.model, (self.layer, self.head)
        if not model.network.blocks[self.layer].attention.rotates:
            return None
        mean = self.trace.stage("k_unrotated", *site)[self.keys].mean(axis=0, dtype=np.float64)
        keys = rotate(model, self.layer, np.tile(mean, (len(self.keys), 1)), self.keys)
        scores: Numbers = keys @ self.trace.stage("q", *site)[self.query].astype(np.float64)
        return scores

    def row_of(self, key: int) -> int:
        """The index of a key in ``keys``. Raises ``PlaceError`` as ``table`` does."""
        rows = np.flatnonzero(self.keys == key)
        if not rows.size:
            raise PlaceError(f"query {self.query} doesn't see key {key}")
        return int(rows[0])

    def _index_of(self, part: str) -> int:
        if part not in self.names:
            raise ArgumentError(f"there is no part {part!r}; there are: {' · '.join(self.names)}")
        return self.names.index(part)

    def __repr__(self) -> str:
        return (
            f"RowExplanation: layer {self.layer}, head {self.head}, query {self.query} with "
            f"{pluralize(len(self.keys), 'keys')}, each from {len(self.names)} × {len(self.names)} "
            "parts"
        )


def explain_score(
    model: Model, trace: Trace, layer: int, head: int, query: int, key: int
) -> ScoreExplanation:
    """Decompose the raw score of a query with a key.

    Works with the mask off, for keys that the mask hides, and in edited runs, with their edited
    parts. A token may be counted from the end, as -1. Raises ``PlaceError`` for a layer, head or
    token that doesn't exist, ``EditError`` for an edit after which the run can't be decomposed,
    ``ArgumentError`` for a trace of another model.
    """
    stream = _Stream(model, trace, layer, head)
    query, key = trace.index_of(query), trace.index_of(key)
    score = float(trace.stage("scores", layer, head)[query, key])
    return stream.score(query, stream.mean_parts("query", [query]), key, score)


def explain_row(model: Model, trace: Trace, layer: int, head: int, query: int) -> RowExplanation:
    """Decompose the raw scores of a query with every key that it sees.

    Raises what ``explain_score`` does.
    """
    stream = _Stream(model, trace, layer, head)
    query = trace.index_of(query)
    keys = np.flatnonzero(~trace.hidden_pairs(layer)[query])
    scores = trace.stage("scores", layer, head)[query, keys].astype(np.float64)
    divisor = model.config.head_dim**0.5 * model.config.layer_divisor(layer)
    q = stream.mean_parts("query", [query])
    return RowExplanation(layer, head, query, stream.names, keys, scores, divisor, stream, q)


def value_parts(
    model: Model, trace: Trace, layer: int, head: int, position: int
) -> dict[Part, Numbers]:
    """A head's value at a token, split by what wrote it: (hs,) for each part.

    The parts are named as ``ScoreExplanation.names``, with b_V in "constant"; their sum is the
    run's own value except for float32's rounding. Raises what ``explain_score`` does.
    """
    stream = _Stream(model, trace, layer, head)
    at = [trace.index_of(position)]
    parts = stream.mean_reading(reading(model, layer, head, "v"), at)
    return dict(zip(stream.names, parts, strict=True))


class _Stream:
    """The stream that a head's queries and keys are computed from, part by part."""

    def __init__(self, model: Model, trace: Trace, layer: int, head: int) -> None:
        check_run(trace, model)
        check_decomposable(trace.edits)
        trace.stage("q", layer, head)  # raises for a layer or head that doesn't exist
        self.model, self.trace, self.layer, self.head = model, trace, layer, head
        self.names = _parts(model, layer)
        self._reads = {
            "query": reading(model, layer, head, "q"),
            "key": reading(model, layer, head, "k"),
        }

    def score(self, query: int, q: Numbers, key: int, score: float) -> ScoreExplanation:
        """Explain a score, given the parts ``q`` (n, hs) of its query."""
        k = self.mean_parts("key", [key])
        names = self.names
        return ScoreExplanation(
            self.layer, self.head, query, key, names, q @ k.T, score, self, q, k
        )

    def mean_parts(self, side: Side, positions: Positions) -> Numbers:
        """The parts of the mean query or key over some positions: (n, hs)."""
        if len(positions) > 1 and self.model.network.blocks[self.layer].attention.rotates:
            return np.array([self._part(side, n, positions).mean(axis=0) for n in self.names])
        parts = self.mean_reading(self._reads[side], positions)
        return self._rotate(side, parts[:, None], positions[:1])[:, 0]

    def mean_reading(self, reads: Reading, positions: Positions) -> Numbers:
        """The parts of the mean of a head's readings at some positions, before RoPE: (n, hs)."""
        shares = np.zeros(len(self.trace.token_ids))
        shares[positions] = 1 / self._scale[positions] / len(positions)
        return np.vstack([self._sum_outputs(shares) @ reads.weight, reads.bias])

    def _sum_outputs(self, shares: Numbers) -> Numbers:
        """Each part's output, times each position's share (T,), summed: (n - 1, C).

        Summed before projection, which is right if all are rotated equally or not at all.
        """
        trace, there = self.trace, np.flatnonzero(shares)
        some = slice(there[0], there[-1] + 1)

        def sum_of(written: Array) -> Numbers:  # without a copy in double precision
            total: Numbers = np.einsum("t,tc->c", shares[some], written[some])
            return total

        mixed = [sum_of(trace.stage("token_embedding")[0])]
        if "position" in self.names:
            mixed.append(sum_of(trace.stage("position_embedding")))
        for n in range(self.layer):
            W_O, b_O = self._output_weights(n)
            heads = trace.weighted_head_outputs(n, shares)  # (nh, hs)
            mixed += [z @ merging for z, merging in zip(heads, W_O, strict=True)]
            mixed += [shares.sum() * b_O] if self.model.config.attention_bias else []
            mixed.append(sum_of(trace.stage("mlp_output", n)[0]))
        return np.array(mixed)

    def _part(self, side: Side, part: Part, positions: Positions) -> Numbers:
        """A part of the queries or keys at some positions: (P, hs)."""
        reads = self._reads[side]
        if part.kind == "constant":
            read = np.tile(reads.bias, (len(positions), 1))
        else:
            read = np.linalg.multi_dot([*self._factors(part, positions), reads.weight])
            read /= self._scale[positions][:, None]
        return self._rotate(side, read, positions)

    def _factors(self, part: Part, positions: Positions) -> list[NDArray[np.floating]]:
        """The factors (P, ·) to (·, C) whose product is a part at some positions."""
        trace = self.trace
        if part.kind == "head":
            layer, head = part.of_head
            made = trace.stage("head_output", layer)[0, head]
            return [made[positions], self._writes(layer, head)]
        if part.kind == "bias":
            return [np.ones((len(positions), 1)), self._output_weights(part.layer or 0)[1][None]]
        if part.kind == "mlp":
            return [trace.stage("mlp_output", part.layer)[0][positions]]
        if part.kind == "position":
            return [trace.stage("position_embedding")[positions]]
        return [trace.stage("token_embedding")[0][positions]]

    def _rotate(self, side: Side, x: Numbers, positions: Positions) -> Numbers:
        """Rotate parts (…, P, hs) to some positions, and apply the scale of a head's own norm."""
        return rotate(
            self.model, self.layer, x / self._own_scale(side, positions)[:, None], positions
        )

    def _own_scale(self, side: Side, positions: Positions) -> Numbers:
        """The σ of a head's own norm of queries or keys at some positions, 1 without one: (P,)."""
        norm = self._reads[side].norm
        if norm is None:
            return np.ones(len(positions))
        stage: StageName = "k_unnormed" if side == "key" else "q_unnormed"
        run = self.trace.stage(stage, self.layer, self.head)[positions]
        return norm.sigma(run.astype(np.float64))

    def dot_keys(self, positions: Positions, query: Numbers, part: int | None = None) -> Numbers:
        """The addition to q·k of a part of the keys at some positions, for a query (hs,): (P,).

        ``part`` is an index into ``names``; None is the run's whole key.
        """
        if part is None:
            k = self.trace.stage("k", self.layer, self.head)[positions].astype(np.float64)
        else:
            k = self._part("key", self.names[part], positions)
        return k @ query

    def _output_weights(self, layer: int) -> tuple[Numbers, Numbers]:
        """W_O (nh, hs, C) and b_O (C,) of a layer; zeros where an edit switched it off."""
        W_O, b_O = map(double, self.model.output_weights(layer))
        return self._attention_factor(layer) * W_O, self._attention_factor(layer) * b_O

    def _writes(self, layer: int, head: int) -> Numbers:
        """W_O of a head (hs, C); zeros likewise."""
        return self._attention_factor(layer) * double(self.model.output_weights(layer)[0][head])

    def _attention_factor(self, layer: int) -> float:
        return 0.0 if attention_is_off(self.trace.edits, layer) else 1.0

    def opened(self, side: Side, position: int, writer: tuple[int, int]) -> Numbers:
        """The part that an earlier head wrote at a position, split by source token: (T, hs)."""
        layer, head = writer
        trace, edits = self.trace, self.trace.edits
        factor = float(head_scale_factors(edits, layer, self.model.config.n_head)[head])
        output = trace.stage("head_output", layer, head)[position]
        if attention_is_off(edits, layer):
            factor = 0.0
        elif factor == 0 and output.any():
            raise ArgumentError(
                f"head {layer}.{head} puts out a mean: it read no token of this text"
            )
        weights = trace.weights_of_queries(layer, slice(position, position + 1))[head, 0]  # (T,)
        v = trace.stage("v", layer, head).astype(np.float64)  # (T, hs)
        taken = factor * weights[:, None] * v if factor else np.zeros_like(v)
        W_O = double(self.model.output_weights(layer)[0][head])  # (hs, C)
        by_token = taken @ (W_O @ self._reads[side].weight) / self._scale[[position]]
        return self._rotate(side, by_token[:, None], [position])[:, 0]

    def by_token(self, key: int, query: Numbers, carried: Mapping[Part, Array]) -> Numbers:
        """``RowExplanation.by_token`` for a query's vector (hs,)."""
        (back,) = rotate(self.model, self.layer, query[None], [-key])  # as seen from the key
        scale = self._scale[[key]] * self._own_scale("key", [key])
        direction = self._reads["key"].weight @ back / scale  # (C,)
        along = np.zeros_like(direction)
        for part, weights in carried.items():
            if part.kind == "token":
                along += direction
                continue
            layer, head = part.of_head
            shares = weights / _sigma(self.model, self.trace, layer)  # (T,)
            factor = head_scale_factors(self.trace.edits, layer, self.model.config.n_head)[head]
            written = self._writes(layer, head) @ direction  # (hs,)
            value = reading(self.model, layer, head, "v").weight  # (C, hs)
            along += factor * shares.sum() * (value @ written)
        embedding = to_numpy(self.model.network.embedding.weight)  # (n_vocab, C)
        added: Numbers = (embedding @ along.astype(np.float32)).astype(np.float64)
        return added

    @cached_property
    def _scale(self) -> Numbers:
        """The σ of the layer's norm at every token: (T,)."""
        return _sigma(self.model, self.trace, self.layer)


def _sigma(model: Model, trace: Trace, layer: int) -> Numbers:
    """The σ of the norm before a layer's attention at every token: (T,)."""
    x = trace.stage(*stream_before(layer))[0].astype(np.float64)  # (T, C)
    return Norm.of(model.network.blocks[layer].attention_norm).sigma(x)


def _parts(model: Model, layer: int) -> tuple[Part, ...]:
    parts = [Part("token")]
    if model.network.position_embedding is not None:
        parts.append(Part("position"))
    for n in range(layer):
        parts += [Part("head", n, head) for head in range(model.config.n_head)]
        parts += [Part("bias", n)] if model.config.attention_bias else []
        parts.append(Part("mlp", n))
    return (*parts, Part("constant"))
