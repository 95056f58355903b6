"""A head's weights alone: what it attends to and what it writes, whatever the sentence.

A head does two things (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits").
Its QK circuit W_Q W_Kᵀ says which keys a query would score highest, its OV circuit W_V W_O what the
head writes when it attends to a token. Here both start from the embeddings and end at the
unembedding, with nothing in between: the direct path through one head.

Conventions of this file:

- Gains are folded in, and weights centred where LayerNorm centres: see ``reading``, ``writing``.
  The last norm's gain goes into the unembedding. TransformerLens: ``fold_ln``,
  ``center_writing_weights``.
- Softmax ignores what all its inputs share, so the mean is subtracted: from each logit the mean
  over the vocabulary (TransformerLens: ``center_unembed``), from each score the mean over all keys
  compared, of the vocabulary or of the positions. So b_K and what a norm's bias adds to keys drop
  out; b_Q and what it adds to queries count, as they do in a run.
- b_V and what a norm's bias adds to values are written whatever the head attends to, as rows of
  weights sum to 1. They don't depend on a token and are left out.
- A norm's σ depends on the run. A single token or position is divided by its own σ;
  eigenvalues are of the circuits before any division, TransformerLens' ``W_E @ OV @ W_U`` and
  ``W_E @ QK @ W_E.T``. The last norm's σ is left out: a run's logit is smaller by that factor.
- With RoPE (Su et al. 2021) a score is qᵀ R(d) k for a key d tokens back: positions act only by
  distance. Their own effect is the mean over the tokens of both sides; content is compared at
  distance 0, or at a given one.

No matrix of size (n_vocab, n_vocab) is ever made: the nonzero eigenvalues of A B and B A agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, SupportsIndex, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from gpt2viz.analysis.sampling import softmax
from gpt2viz.arrays import Array, Numbers, Pairs, largest
from gpt2viz.errors import ContextError, PlaceError
from gpt2viz.labels import pluralize
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import double, to_numpy
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.model.transformer import Norm
from gpt2viz.run.trace import Trace
from gpt2viz.run.tracer import token_id

Positions = Sequence[int] | NDArray[np.int64]
#: A head's projections of the stream.
Into = Literal["q", "k", "v"]


class Reading(NamedTuple):
    """A head's map from the stream to its q, k or v, before RoPE rotates them.

    ``before`` (C, hs) is W_Q, W_K or W_V with centring and gain of the layer's norm folded in;
    ``constant`` (hs,) doesn't depend on the stream: that norm's bias through it, and its own bias.
    ``norm`` is that of a head's own channels, which follows in some models.
    """

    before: Numbers
    constant: Numbers
    norm: Norm | None

    @property
    def weight(self) -> Numbers:
        """``before`` with the gain of its ``norm`` too: (C, hs)."""
        return self.before if self.norm is None else self.before * self.norm.gain

    @property
    def bias(self) -> Numbers:
        """``constant`` with the gain of its ``norm`` too: (hs,)."""
        return self.constant if self.norm is None else self.constant * self.norm.gain

    def read(self, x: Numbers) -> Numbers:
        """Read the layer norm's output before gain and bias: (T, C) -> (T, hs)."""
        read: Numbers = x @ self.before + self.constant
        return read if self.norm is None else read / self.norm.sigma(read)[:, None] * self.norm.gain

    def project(self, x: Numbers, direction: Numbers) -> Numbers:
        """``read`` along a direction (hs,), up to a constant common to all: (T,)."""
        return x @ (self.weight @ direction) if self.norm is None else self.read(x) @ direction


def reading(model: Model, layer: int, head: int, into: Into) -> Reading:
    """A head's reading of the stream: see ``Reading``. Heads of a group share k and v."""
    block = model.network.blocks[layer]
    norm, own = Norm.of(block.attention_norm), block.attention.head_norm(into)
    W, b = map(double, block.attention.input_weights(into, head))
    before = norm.centre(norm.gain[:, None] * W, axis=0)
    return Reading(before, norm.bias @ W + b, None if own is None else Norm.of(own))


def rotate(model: Model, layer: int, x: Numbers, positions: Positions) -> Numbers:
    """Rotate a layer's queries or keys (…, T, hs) by positions (T,), in models with RoPE."""
    rotated = model.network.blocks[layer].attention.rotate(
        torch.tensor(x), torch.as_tensor(np.asarray(positions))
    )
    return rotated.numpy()


def writing(model: Model, layer: int, head: int) -> Numbers:
    """W_O of a head (hs, C), centred as norms centre: LayerNorm ignores what all channels share."""
    return Norm.of(model.network.final_norm).centre(double(model.output_weights(layer)[0][head]))


Eigenvalues = NDArray[np.complex128]

#: Numbers in double precision that are held at a time, of arrays as long as a vocabulary.
BLOCK = 4_000_000
#: The distances compared in models with RoPE: as far as GPT-2 sees, as weights spread over longer
#: texts aren't comparable.
LONGEST = 1024


class Scored(NamedTuple):
    """A token by its id, and its number."""

    token: int
    value: float


class Ranked(NamedTuple):
    """The ends of an order of the whole vocabulary: ``most`` begins with the highest number,
    ``least`` with the lowest."""

    most: tuple[Scored, ...]
    least: tuple[Scored, ...]


class ByDistance(NamedTuple):
    """Scores by distance, query − key = 0 to n_positions − 1: their ``mean`` over all pairs of
    positions at that distance, and their standard deviation (n_positions,) each.

    With RoPE, over all pairs of tokens at that distance.
    """

    mean: Numbers
    spread: Numbers


class PlaceWeights(NamedTuple):
    """Means over all queries but the first: of the weight on the key at each distance
    ``by_distance`` (n_positions,), and on the ``first`` position. NaN for a single position."""

    by_distance: Numbers
    first: float


class PredictedScores(NamedTuple):
    """Scaled scores, (T, T) each, from the weights alone and from a run: each row less its mean
    over the keys that its query sees, NaN at the others.

    ``correlation`` is Pearson's over all of these but the first row; NaN for fewer than three
    tokens, which determine it, and if all are equal or some aren't finite.
    """

    by_weights: Numbers
    in_run: Numbers
    correlation: float


@dataclass(frozen=True, eq=False, repr=False)
class HeadCircuit:
    """One head's weights, folded, and the numbers that follow from them by these conventions.

    ``query`` and ``key`` are how it reads q and k, ``W_V`` is (C, hs) and ``W_O`` (hs, C).
    ``divisor`` is the divisor of scores before the softmax: √hs, and more in some models.
    """

    layer: int
    head: int
    query: Reading
    key: Reading
    W_V: Numbers
    W_O: Numbers
    divisor: float
    ends: Ends = field(repr=False)

    @cached_property
    def ov_eigenvalues(self) -> Eigenvalues:
        """The eigenvalues of the full OV circuit, without zeros that every circuit has: (hs,)."""
        return _eigenvalues(self.W_O @ self.ends.to_logits @ self.W_V)

    @cached_property
    def qk_eigenvalues(self) -> Eigenvalues:
        """The same of the full QK circuit with its keys centred: (hs,)."""
        return _eigenvalues(self.key.weight.T @ self.ends.to_keys @ self.query.weight)

    @property
    def copying_score(self) -> float:
        """Σλ / Σ|λ| over ``ov_eigenvalues``, from −1 to 1; NaN where the circuit is 0.

        1 is a head that raises the logit of every token that it attends to, −1 one that lowers it
        (Elhage et al. 2021, "Detecting Copying Behavior").
        """
        return _positive(self.ov_eigenvalues)

    @property
    def matching_score(self) -> float:
        """The same over ``qk_eigenvalues``: 1 is a head whose queries match their own token."""
        return _positive(self.qk_eigenvalues)

    def writes(self, token: int | str, k: int = 10) -> Ranked:
        """The ``k`` tokens whose logits it raises most, and least, when it attends to a token.

        A row of the full OV circuit, divided by the token's σ. Raises ``PlaceError`` for an id
        outside the vocabulary, ``TextError`` for a text that isn't one token.
        """
        wrote = self.ends.normalize([token])[0] @ self.W_V @ self.W_O  # (C,)
        return _rank(self.ends.logits(wrote), k)

    def top_keys(self, token: int | str, k: int = 10, back: int = 0) -> Ranked:
        """The ``k`` keys that a query of a token would score highest, and lowest, by content alone.

        In scaled scores, q·k / ``divisor``. With RoPE, the keys are ``back`` tokens back. Raises
        what ``writes`` raises.
        """
        (q,) = self._rotate(self.query.read(self.ends.normalize([token])), [back])  # (hs,)
        return _rank(self.ends.key_scores(self.key, q / self.divisor), k)

    def scores(self, token_ids: Sequence[int]) -> Numbers:
        """The raw scores q·k that a text's tokens and their positions alone would give: (T, T).

        With all biases, and the σ of the embeddings' sum: in layer 0 they are a run's. In later
        layers a run's differ by what earlier layers wrote, and by σ. Raises ``PlaceError`` as
        ``writes`` does, ``ContextError`` for more tokens than there are positions.
        """
        x, positions = self.ends.normalize(token_ids, placed=True), range(len(token_ids))  # (T, C)
        q, k = (self._rotate(reads.read(x), positions) for reads in (self.query, self.key))
        return q @ k.T

    def predict_scores(self, trace: Trace) -> PredictedScores:
        """Compare a run's scores with those from tokens and positions alone.

        They differ by what the head reads of earlier layers, and by σ.
        """
        hidden = trace.hidden_pairs(self.layer)
        run_scores = trace.stage("scores", self.layer, self.head).astype(np.float64)
        mine, run = (
            _subtract_row_mean(scores / self.divisor, hidden)
            for scores in (self.scores(trace.token_ids), run_scores)
        )
        predicted, actual = (scores[1:][~hidden[1:]] for scores in (mine, run))
        comparable = len(trace.token_ids) > 2 and np.isfinite(actual).all()
        if not comparable or predicted.std() == 0 or actual.std() == 0:
            return PredictedScores(mine, run, float("nan"))
        return PredictedScores(mine, run, float(np.corrcoef(predicted, actual)[0, 1]))

    @cached_property
    def by_distance(self) -> ByDistance:
        """The scaled scores from positions alone: see ``ByDistance``."""
        n = self.ends.n_positions
        if self.ends.positions is None:
            return ByDistance(_centre(self._kernel), self._kernel_spread())
        sums, squares = np.zeros(n), np.zeros(n)
        for queries, scores in self._position_scores(self.ends.positions):
            for query, row in zip(queries, scores, strict=True):
                back = row[query::-1]  # the query itself first
                sums[: len(back)] += back
                squares[: len(back)] += back**2
        pairs = np.arange(n, 0, -1)
        mean = sums / pairs
        return ByDistance(mean, np.sqrt((squares / pairs - mean**2).clip(min=0)))

    @cached_property
    def place_weights(self) -> PlaceWeights:
        """The weights from positions alone, with the mask on: see ``PlaceWeights``."""
        n = self.ends.n_positions
        if n == 1:
            return PlaceWeights(np.full(1, np.nan), float("nan"))
        if self.ends.positions is None:
            return self._weights_by_distance()
        by_distance, first = np.zeros(n), 0.0
        for queries, scores in self._position_scores(self.ends.positions):
            hidden = hidden_pairs(np.arange(n), True, queries=slice(queries.start, queries.stop))
            scores[hidden] = -np.inf
            for query, row in zip(queries, softmax(scores), strict=True):
                if query > 0:
                    by_distance[: query + 1] += row[query::-1]
                    first += float(row[0])
        return PlaceWeights(by_distance / (n - 1), first / (n - 1))

    @property
    def offset(self) -> int:
        """The distance that gets most weight by positions alone: 1 is the token before."""
        return int(self.place_weights.by_distance.argmax())

    def _position_scores(self, x: Numbers) -> Iterator[tuple[range, Numbers]]:
        """Yield scores of some queries with every position as a key, minus their mean.

        ``x`` (n_positions, C) are the position embeddings after the norm.
        """
        k = self.key.read(x) / self.divisor
        k = k - k.mean(axis=0)
        for queries in _blocks(len(x), len(x)):
            yield queries, self.query.read(x[queries.start : queries.stop]) @ k.T

    def _rotate(self, x: Numbers, positions: Sequence[int]) -> Numbers:
        return rotate(self.ends.model, self.layer, x, positions)

    @cached_property
    def _kernel(self) -> Numbers:
        """The mean score of all pairs of tokens, by distance: q̄ᵀ R(d) k̄, (n_positions,)."""
        q, k = (self.ends.mean_reading(reads) for reads in (self.query, self.key))
        n = self.ends.n_positions
        return self._rotate(np.tile(q, (n, 1)), range(n)) @ k / self.divisor

    def _kernel_spread(self) -> Numbers:
        """The standard deviation of these scores, by distance: (n_positions,).

        The mean of (qᵀ R k)² over all pairs is Σ (⟨q qᵀ⟩ R) ⊙ (R ⟨k kᵀ⟩).
        """
        q, k = (self.ends.second_moment(reads) for reads in (self.query, self.key))
        squares, n = list[Numbers](), self.ends.n_positions
        for back in _blocks(n, q.size):
            unit = np.repeat(np.eye(len(q))[:, None], len(back), axis=1)  # (hs, d, hs)
            R = self._rotate(unit, back).swapaxes(0, 1)  # (d, hs, hs)
            squares.append(np.einsum("dij,dij->d", q @ R, R @ k) / self.divisor**2)
        spread: Numbers = np.sqrt((np.concatenate(squares) - self._kernel**2).clip(min=0))
        return spread

    def _weights_by_distance(self) -> PlaceWeights:
        """``place_weights`` of the kernel, within the layer's window if it has one."""
        kernel, window = self._kernel.copy(), self.ends.model.config.window(self.layer)
        kernel[window or len(kernel) :] = -np.inf
        sums = np.logaddexp.accumulate(kernel)[1:]  # each query's row, without the first
        farther = np.logaddexp.accumulate(-sums[::-1])[::-1]  # of the queries that see so far back
        by_distance = np.exp(kernel + np.append(farther[0], farther)) / len(sums)
        return PlaceWeights(by_distance, float(np.exp(kernel[1:] - sums).mean()))

    def __repr__(self) -> str:
        weight = self.place_weights.by_distance[self.offset]
        return (
            f"HeadCircuit: layer {self.layer}, head {self.head}, copying "
            f"{self.copying_score:+.2f}, matching {self.matching_score:+.2f}, by places alone "
            f"{weight:.2f} on the key {pluralize(self.offset, 'tokens')} back"
        )


def head_circuit(model: Model, layer: int, head: int) -> HeadCircuit:
    """Read one head from its weights alone, whatever the sentence.

    Raises ``PlaceError`` for a layer or head that doesn't exist.
    """
    config = model.config
    for name, given, n in (("layer", layer, config.n_layer), ("head", head, config.n_head)):
        if not (isinstance(given, SupportsIndex) and 0 <= given < n):
            raise PlaceError(f"no {name} {given}: this model has {name}s 0 to {n - 1}")
    return _circuit(model, layer, head, Ends(model))


def every_circuit(model: Model) -> Iterator[HeadCircuit]:
    """Every head's circuit, layer by layer. What they share is computed once."""
    ends = Ends(model)
    for layer, head in np.ndindex(model.config.n_layer, model.config.n_head):
        yield _circuit(model, layer, head, ends)


def _circuit(model: Model, layer: int, head: int, ends: Ends) -> HeadCircuit:
    config = model.config
    query, key, value = (reading(model, layer, head, into) for into in get_args(Into))
    divisor = config.head_dim**0.5 * config.layer_divisor(layer)
    return HeadCircuit(
        layer, head, query, key, value.weight, writing(model, layer, head), divisor, ends
    )


class Ends:
    """Both ends of the stream: the embeddings, and the unembedding with the last norm's gain.

    ``n_positions`` is the number of positions, or distances, that are compared.
    """

    def __init__(self, model: Model) -> None:
        network, self.model = model.network, model
        self._embedding, self._unembedding = to_numpy(network.embedding.weight), model.unembedding
        learned, n = network.position_embedding, model.config.n_positions
        self._wpe = None if learned is None else double(learned.weight)  # (n_positions, C)
        self.n_positions = n if learned is not None else min(n, LONGEST)
        self._first = Norm.of(network.blocks[0].attention_norm)
        self._gain = Norm.of(network.final_norm).gain  # (C,)

    def normalize(self, tokens: Sequence[int | str], *, placed: bool = False) -> Numbers:
        """Tokens after a norm, before gain and bias: (T, C); ``placed`` at 0, 1, 2 …"""
        n_places, T = self.model.config.n_positions, len(tokens)
        ids = [token_id(self.model, token) for token in tokens]
        x = self._embedding[ids].astype(np.float64)
        if placed and T > n_places:
            raise ContextError(T, n_places)
        if placed and self._wpe is not None:
            x += self._wpe[:T]
        return self._norm(x)

    @cached_property
    def positions(self) -> Numbers | None:
        """The position embeddings alone after a norm: (n_positions, C); None if there are none."""
        return None if self._wpe is None else self._norm(self._wpe)

    def key_scores(self, key: Reading, query: Numbers) -> Numbers:
        """The score of each token's key with a query (hs,), minus their mean: (n_vocab,)."""
        shares = [key.project(self._norm(rows), query) for rows in _double_blocks(self._embedding)]
        return _centre(np.concatenate(shares))

    def mean_reading(self, reads: Reading) -> Numbers:
        """The mean of the readings of all tokens: (hs,)."""
        if reads.norm is None:
            return self._mean @ reads.before + reads.constant
        return self._token_mean(lambda x: reads.read(x).sum(axis=0))

    def second_moment(self, reads: Reading) -> Numbers:
        """⟨r rᵀ⟩ of the readings r of all tokens: (hs, hs)."""

        def squares(x: Numbers) -> Numbers:
            read = reads.read(x)
            return read.T @ read

        return self._token_mean(squares)

    @cached_property
    def _mean(self) -> Numbers:
        """The mean of all tokens after a norm: (C,)."""
        return self._token_mean(lambda x: x.sum(axis=0))

    def _token_mean(self, total: Callable[[Numbers], Numbers]) -> Numbers:
        """The mean over all tokens, after a norm, given the ``total`` over a block of them."""
        whole = np.zeros(())
        for rows in _double_blocks(self._embedding):
            whole = whole + total(self._norm(rows))
        return whole / len(self._embedding)

    def logits(self, wrote: Numbers) -> Numbers:
        """An output's (C,) contribution to each logit, minus their mean: (n_vocab,)."""
        read = self._gain * wrote
        return _centre(np.concatenate([rows @ read for rows in _double_blocks(self._unembedding)]))

    @cached_property
    def to_logits(self) -> Numbers:
        """From the stream's end to its start, through the vocabulary: W_U W_E, (C, C)."""
        return self._gain[:, None] * _moments(self._unembedding, self._embedding)

    @cached_property
    def to_keys(self) -> Numbers:
        """W_Eᵀ W_E with its keys centred: (C, C)."""
        return _moments(self._embedding, self._embedding)

    def _norm(self, x: Numbers) -> Numbers:
        return self._first.centre(x) / self._first.sigma(x)[:, None]


def _moments(left: Array, right: Array) -> Numbers:
    """Σ (a − mean a) bᵀ over the rows a, b of two matrices (n_vocab, C): (C, C)."""
    C = left.shape[1]
    products, a_sum, b_sum = np.zeros((C, C)), np.zeros(C), np.zeros(C)
    for a, b in zip(_double_blocks(left), _double_blocks(right), strict=True):
        products += a.T @ b
        a_sum += a.sum(axis=0)
        b_sum += b.sum(axis=0)
    return products - np.outer(a_sum, b_sum) / len(left)


def _double_blocks(matrix: Array) -> Iterator[Numbers]:
    """Yield a matrix in blocks of rows, in double precision."""
    for rows in _blocks(*matrix.shape):
        yield matrix[rows.start : rows.stop].astype(np.float64)


def _blocks(n_rows: int, n_columns: int) -> Iterator[range]:
    """Ranges of rows of at most ``BLOCK`` numbers."""
    step = max(1, BLOCK // n_columns)
    return (range(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _subtract_row_mean(scores: Numbers, hidden: Pairs) -> Numbers:
    with np.errstate(invalid="ignore"):  # a run's scores may be infinite
        mean = scores.mean(axis=1, keepdims=True, where=~hidden)
        return np.where(hidden, np.nan, scores - mean)


def _centre(numbers: Numbers) -> Numbers:
    centred: Numbers = numbers - numbers.mean()
    return centred


def _eigenvalues(matrix: Numbers) -> Eigenvalues:
    return np.linalg.eigvals(matrix).astype(np.complex128)  # real ones come as real numbers


def _positive(eigenvalues: Eigenvalues) -> float:
    """Σλ / Σ|λ|. The complex ones come in pairs, whose sum is real."""
    whole = float(np.abs(eigenvalues).sum())
    return float(eigenvalues.sum().real) / whole if whole else float("nan")


def _rank(values: Numbers, k: int) -> Ranked:
    """The ``k`` highest and lowest; of equal ones the first ones."""
    most, least = largest(values, k), largest(-values, k)
    return Ranked(*(tuple(Scored(int(n), float(values[n])) for n in end) for end in (most, least)))
