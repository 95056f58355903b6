"""A head from its weights alone: what it looks for and what it writes, whatever the sentence.

A head does two things (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits").
Its QK circuit W_Q W_Kᵀ says which keys a query would score highest, its OV circuit W_V W_O what it
writes of a token that it looks at. Here both are read from the embeddings at one end and into the
unembedding at the other, as if nothing stood between: the direct path through one head.

What is taken how, for everything in this file:

- Gains are folded in, and all is centred where LayerNorm centres: see ``reading`` and ``writing``.
  ln_f's gain goes into the unembedding. TransformerLens: ``fold_ln``, ``center_writing_weights``.
- Softmax forgets what all choices share, so it is left out: each logit is less the mean over the
  vocabulary (TransformerLens: ``center_unembed``), each score less the mean over all keys in
  question, the vocabulary or the places. So b_K and what ln_1's bias adds to keys drop out; b_Q
  and what it adds to queries count, as they do in a run.
- b_V and what ln_1's bias adds to values are written whatever the head looks at, as rows of weights
  sum to 1. They say nothing of a token and are left out.
- LayerNorm's σ is a run's own. A token or place that is looked at alone is divided by its own σ;
  eigenvalues are of the circuits before any division, TransformerLens' ``W_E @ OV @ W_U`` and
  ``W_E @ QK @ W_E.T``. ln_f's σ is left out: a logit of a run is smaller by that factor.

No matrix of size (n_vocab, n_vocab) is ever made: the nonzero eigenvalues of A B and B A agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array, Pairs
from gpt2viz.errors import ContextError, PlaceError
from gpt2viz.labels import pluralize
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import double, read_only
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.model.transformer import Norm
from gpt2viz.run.trace import Trace

Numbers = NDArray[np.float64]
#: What a head makes of the stream that it reads.
Into = Literal["q", "k", "v"]


def reading(model: Model, layer: int, head: int, into: Into) -> tuple[Numbers, Numbers]:
    """W_Q, W_K or W_V of a head with its norm's centring and gain folded in (C, hs), and what is
    read whatever was written: the norm's bias through it, and its own (hs,).
    """
    block = model.network.blocks[layer]
    norm, (W, b) = Norm.of(block.attention_norm), map(double, block.attention.reading(into, head))
    return norm.centre(norm.gain[:, None] * W, axis=0), norm.bias @ W + b


def writing(model: Model, layer: int, head: int) -> Numbers:
    """W_O of a head (hs, C), centred as norms do: no LayerNorm reads what all channels share."""
    return Norm.of(model.network.final_norm).centre(double(model.merging(layer)[0][head]))


def check_head(model: Model, layer: int, head: int) -> None:
    """Raise ``PlaceError`` for a layer or head that isn't there."""
    config = model.config
    for name, given, n in (("layer", layer, config.n_layer), ("head", head, config.n_head)):
        if not 0 <= given < n:
            raise PlaceError(f"no {name} {given}: this model has {name}s 0 to {n - 1}")


Eigenvalues = NDArray[np.complex128]

#: Numbers in double precision that are held at a time, of arrays as long as a vocabulary.
BLOCK = 4_000_000


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
    """By how far back the key is, query − key = 0 to n_positions − 1: the ``mean`` score of all
    pairs of places at that distance, and their standard deviation (n_positions,) each."""

    mean: Numbers
    spread: Numbers


class PlaceWeights(NamedTuple):
    """Means over all queries but the first: of the weight on the key at each distance
    ``by_distance`` (n_positions,), and of that on the ``first`` place. NaN for a single place."""

    by_distance: Numbers
    first: float


class Foretold(NamedTuple):
    """The scores that a softmax takes, (T, T) each, as the weights alone have them and as a run
    did: each row less its mean over the keys that its query sees, NaN at the others.

    ``correlation`` is Pearson's over all of these but the first row; NaN for fewer than three
    tokens, of which it says nothing, and where all are alike or some aren't finite.
    """

    by_weights: Numbers
    in_run: Numbers
    correlation: float


@dataclass(frozen=True, eq=False, repr=False)
class HeadCircuit:
    """One head's weights, folded, and the numbers that follow from them, as this module says.

    ``W_Q``, ``W_K`` and ``W_V`` are (C, hs), ``W_O`` is (hs, C); ``q_bias`` and ``k_bias`` (hs,)
    are TransformerLens' ``b_Q`` and ``b_K``. ``divisor`` is what scores are divided by before the
    softmax: √hs, and more in some models.
    """

    layer: int
    head: int
    W_Q: Numbers
    W_K: Numbers
    W_V: Numbers
    W_O: Numbers
    q_bias: Numbers
    k_bias: Numbers
    divisor: float
    ends: Ends = field(repr=False)

    @cached_property
    def ov_eigenvalues(self) -> Eigenvalues:
        """Those of the full OV circuit, but for zeros that every circuit has: (hs,)."""
        return _eigenvalues(self.W_O @ self.ends.to_logits @ self.W_V)

    @cached_property
    def qk_eigenvalues(self) -> Eigenvalues:
        """Those of the full QK circuit with its keys centred, but for such zeros: (hs,)."""
        return _eigenvalues(self.W_K.T @ self.ends.to_keys @ self.W_Q)

    @property
    def copying_score(self) -> float:
        """Σλ / Σ|λ| over ``ov_eigenvalues``, from −1 to 1; NaN where the circuit is 0.

        1 is a head that raises every token that it looks at, −1 one that suppresses it (Elhage et
        al. 2021, "Detecting Copying Behavior").
        """
        return _positive(self.ov_eigenvalues)

    @property
    def matching_score(self) -> float:
        """The same over ``qk_eigenvalues``: 1 is a head whose queries look for their own token."""
        return _positive(self.qk_eigenvalues)

    def writes(self, token: int, k: int = 10) -> Ranked:
        """The ``k`` tokens whose logits it raises most, and least, when it looks at a token.

        A row of the full OV circuit, over the token's σ. Raises ``PlaceError`` for a token that
        isn't in the vocabulary.
        """
        wrote = self.ends.normed([token])[0] @ self.W_V @ self.W_O  # (C,)
        return _ranked(self.ends.logits(wrote), k)

    def likes(self, token: int, k: int = 10) -> Ranked:
        """The ``k`` keys that a query of a token would score highest, and lowest, by content alone.

        In scores that softmax takes, q·k / ``divisor``. Raises as ``writes`` does.
        """
        q = self.ends.normed([token])[0] @ self.W_Q + self.q_bias  # (hs,)
        return _ranked(self.ends.as_keys(self.W_K @ q / self.divisor), k)

    def scores(self, token_ids: Sequence[int]) -> Numbers:
        """The raw scores q·k that a text's tokens and their places alone would give: (T, T).

        With all biases, and σ that of the two embeddings' sum: those of a run in layer 0. Deeper
        down a run's differ by what earlier layers wrote, and by σ. Raises ``PlaceError`` as
        ``writes`` does, ``ContextError`` for more tokens than there are places.
        """
        x = self.ends.normed(token_ids, placed=True)  # (T, C)
        scores: Numbers = (x @ self.W_Q + self.q_bias) @ (x @ self.W_K + self.k_bias).T
        return scores

    def foretells(self, trace: Trace) -> Foretold:
        """Compare a run's scores with those that tokens and places alone give: see ``Foretold``.

        What a run's own differ by is what the head reads of earlier layers, and σ.
        """
        hidden = trace.hidden_pairs()
        run_scores = trace.stage("scores", self.layer, self.head).astype(np.float64)
        mine, run = (
            _less_row_mean(scores / self.divisor, hidden)
            for scores in (self.scores(trace.token_ids), run_scores)
        )
        predicted, actual = (scores[1:][~hidden[1:]] for scores in (mine, run))
        comparable = len(trace.token_ids) > 2 and np.isfinite(actual).all()
        if not comparable or predicted.std() == 0 or actual.std() == 0:
            return Foretold(mine, run, float("nan"))
        return Foretold(mine, run, float(np.corrcoef(predicted, actual)[0, 1]))

    @cached_property
    def by_distance(self) -> ByDistance:
        """The scores that places alone give, in scores that softmax takes: see ``ByDistance``."""
        n = len(self.ends.positions)
        sums, squares = np.zeros(n), np.zeros(n)
        for queries, scores in self._of_places():
            for query, row in zip(queries, scores, strict=True):
                back = row[query::-1]  # the query itself first
                sums[: len(back)] += back
                squares[: len(back)] += back**2
        pairs = np.arange(n, 0, -1)
        mean = sums / pairs
        return ByDistance(mean, np.sqrt((squares / pairs - mean**2).clip(min=0)))

    @cached_property
    def place_weights(self) -> PlaceWeights:
        """The weights that places alone would give, with the mask on: see ``PlaceWeights``."""
        n = len(self.ends.positions)
        by_distance, first = np.zeros(n), 0.0
        for queries, scores in self._of_places():
            hidden = hidden_pairs(np.arange(n), True, queries=slice(queries.start, queries.stop))
            scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            for query, row in zip(queries, weights, strict=True):
                if query > 0:
                    by_distance[: query + 1] += row[query::-1]
                    first += float(row[0])
        if n == 1:
            return PlaceWeights(np.full(1, np.nan), float("nan"))
        return PlaceWeights(by_distance / (n - 1), first / (n - 1))

    @property
    def offset(self) -> int:
        """The distance that gets most weight by places alone: 1 is the token before."""
        return int(self.place_weights.by_distance.argmax())

    def _of_places(self) -> Iterator[tuple[range, Numbers]]:
        """Scores of some queries with every place as a key, less the mean over these, in turn."""
        x = self.ends.positions  # (n_positions, C)
        k = x @ self.W_K / self.divisor
        k = k - k.mean(axis=0)
        for queries in _blocks(len(x), len(x)):
            yield queries, (x[queries.start : queries.stop] @ self.W_Q + self.q_bias) @ k.T

    def __repr__(self) -> str:
        return (
            f"HeadCircuit: layer {self.layer}, head {self.head}, copying "
            f"{self.copying_score:+.2f}, matching {self.matching_score:+.2f}, by places alone "
            f"{self._offset_weight()}"
        )

    def _offset_weight(self) -> str:
        weight = self.place_weights.by_distance[self.offset]
        return f"{weight:.2f} on the key {pluralize(self.offset, 'tokens')} back"


def head_circuit(model: Model, layer: int, head: int) -> HeadCircuit:
    """Read one head from its weights alone, whatever the sentence.

    Raises ``PlaceError`` for a layer or head that isn't there.
    """
    check_head(model, layer, head)
    return _circuit(model, layer, head, Ends(model))


def every_circuit(model: Model) -> Iterator[HeadCircuit]:
    """Every head's circuit, layer by layer. What all share is worked out once."""
    ends = Ends(model)
    for layer, head in np.ndindex(model.config.n_layer, model.config.n_head):
        yield _circuit(model, layer, head, ends)


def _circuit(model: Model, layer: int, head: int, ends: Ends) -> HeadCircuit:
    config = model.config
    (W_Q, b_Q), (W_K, b_K) = (reading(model, layer, head, into) for into in ("q", "k"))
    W_V, _ = reading(model, layer, head, "v")
    divisor = config.head_dim**0.5 * config.layer_divisor(layer)
    W_O = writing(model, layer, head)
    return HeadCircuit(layer, head, W_Q, W_K, W_V, W_O, b_Q, b_K, divisor, ends)


class Ends:
    """Both ends of the stream: the embeddings, and the unembedding with ln_f's gain."""

    def __init__(self, model: Model) -> None:
        network = model.network
        self._embedding, self._unembedding = read_only(network.embedding.weight), model.unembedding
        learned = network.position_embedding
        shape = (model.config.n_positions, model.config.n_embd)
        self._wpe = (
            np.zeros(shape) if learned is None else double(learned.weight)
        )  # (n_positions, C)
        self._first = Norm.of(network.blocks[0].attention_norm)
        self._gain = Norm.of(network.final_norm).gain  # (C,)

    def normed(self, token_ids: Sequence[int], *, placed: bool = False) -> Numbers:
        """Tokens as ln_1 leaves them before gain and bias: (T, C); ``placed`` at 0, 1, 2 …"""
        n_vocab, n_places, T = len(self._embedding), len(self._wpe), len(token_ids)
        for token in token_ids:
            if not 0 <= token < n_vocab:
                raise PlaceError(f"no token {token}: the vocabulary has 0 to {n_vocab - 1}")
        x = self._embedding[list(token_ids)].astype(np.float64)
        if placed:
            if T > n_places:
                raise ContextError(T, n_places)
            x += self._wpe[:T]
        return self._norm(x)

    @cached_property
    def positions(self) -> Numbers:
        """The position embeddings alone as ln_1 leaves them: (n_positions, C)."""
        return self._norm(self._wpe)

    def as_keys(self, direction: Numbers) -> Numbers:
        """Each token's share of a direction (C,), less their mean: (n_vocab,)."""
        shares = [self._norm(rows) @ direction for rows in _doubled(self._embedding)]
        return _centred(np.concatenate(shares))

    def logits(self, wrote: Numbers) -> Numbers:
        """The addition of an output (C,) to each logit, less their mean: (n_vocab,)."""
        read = self._gain * wrote
        return _centred(np.concatenate([rows @ read for rows in _doubled(self._unembedding)]))

    @cached_property
    def to_logits(self) -> Numbers:
        """From the stream's end to its start, summed over the vocabulary: W_U W_E, (C, C)."""
        return self._gain[:, None] * _moments(self._unembedding, self._embedding)

    @cached_property
    def to_keys(self) -> Numbers:
        """W_Eᵀ W_E with its keys centred: (C, C)."""
        return _moments(self._embedding, self._embedding)

    def _norm(self, x: Numbers) -> Numbers:
        normed: Numbers = self._first.centre(x) / self._first.sigma(x)[:, None]
        return normed


def _moments(left: Array, right: Array) -> Numbers:
    """Σ (a − mean a) bᵀ over the rows a, b of two matrices (n_vocab, C): (C, C)."""
    C = left.shape[1]
    products, a_sum, b_sum = np.zeros((C, C)), np.zeros(C), np.zeros(C)
    for a, b in zip(_doubled(left), _doubled(right), strict=True):
        products += a.T @ b
        a_sum += a.sum(axis=0)
        b_sum += b.sum(axis=0)
    moments: Numbers = products - np.outer(a_sum, b_sum) / len(left)
    return moments


def _doubled(matrix: Array) -> Iterator[Numbers]:
    """Some rows of a matrix at a time, in double precision."""
    for rows in _blocks(*matrix.shape):
        yield matrix[rows.start : rows.stop].astype(np.float64)


def _blocks(n_rows: int, n_columns: int) -> Iterator[range]:
    """Some rows at a time, of at most ``BLOCK`` numbers."""
    step = max(1, BLOCK // n_columns)
    return (range(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _less_row_mean(scores: Numbers, hidden: Pairs) -> Numbers:
    with np.errstate(invalid="ignore"):  # a run's may be infinite
        mean = scores.mean(axis=1, keepdims=True, where=~hidden)
        return np.where(hidden, np.nan, scores - mean)


def _centred(numbers: Numbers) -> Numbers:
    centred: Numbers = numbers - numbers.mean()
    return centred


def _eigenvalues(matrix: Numbers) -> Eigenvalues:
    return np.linalg.eigvals(matrix).astype(np.complex128)  # real ones come as real numbers


def _positive(eigenvalues: Eigenvalues) -> float:
    """Σλ / Σ|λ|. The complex ones come in pairs, whose sum is real."""
    whole = float(np.abs(eigenvalues).sum())
    return float(eigenvalues.sum().real) / whole if whole else float("nan")


def _ranked(values: Numbers, k: int) -> Ranked:
    """The ``k`` highest and lowest; of equal ones the first."""
    most, least = (np.argsort(sign * values, kind="stable")[:k] for sign in (-1, 1))
    return Ranked(*(tuple(Scored(int(n), float(values[n])) for n in end) for end in (most, least)))
