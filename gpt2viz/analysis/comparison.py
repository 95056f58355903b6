"""Two runs: which of their tokens correspond, and how far apart their vectors are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array, Numbers, largest
from gpt2viz.errors import ArgumentError
from gpt2viz.run.stages import Site, StageName
from gpt2viz.run.trace import Trace


class Pair(NamedTuple):
    """A token of each text, by position from 0; None if one text has no counterpart.

    ``same`` is True if both are the same token of the vocabulary.
    """

    a: int | None
    b: int | None
    same: bool


def align(a: Sequence[int], b: Sequence[int]) -> tuple[Pair, ...]:
    """Align both texts' token ids in order: equal tokens are paired.

    Uses the standard library's ``difflib.SequenceMatcher``. Where some tokens were replaced by
    others, they are paired one by one as unequal; the rest are paired with None.
    """
    pairs = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for n in range(max(a1 - a0, b1 - b0)):
            left = a0 + n if a0 + n < a1 else None
            right = b0 + n if b0 + n < b1 else None
            pairs.append(Pair(left, right, tag == "equal"))
    return tuple(pairs)


def match_tokens(a: Sequence[int], b: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Pairs of positions of the same token in both texts, each position once, in ``a``'s order.

    First those that ``align`` pairs; then the rest are aligned again until no pair is left, so
    that words in another order are paired too.
    """
    left, right = list(range(len(a))), list(range(len(b)))
    result: list[tuple[int, int]] = []
    while True:
        pairs = align([a[n] for n in left], [b[n] for n in right])
        met = [
            (left[p.a], right[p.b]) for p in pairs if p.same and p.a is not None and p.b is not None
        ]
        if not met:
            return tuple(sorted(result))
        result += met
        left = [n for n in left if n not in {in_a for in_a, _ in met}]
        right = [n for n in right if n not in {in_b for _, in_b in met}]


@dataclass(frozen=True, eq=False)
class Path:
    """The similarity of a token's vectors in two runs at each of S points of the model.

    ``cosine`` (S,) is the cosine similarity of its two vectors, in [−1, 1], and NaN where only one
    of them is all zeros; ``difference`` (S,) the largest |a − b| of any of their C channels, 0
    where they are equal to the last digit.
    """

    sites: tuple[Site, ...]
    cosine: Numbers
    difference: Numbers


def stream_sites(n_layer: int) -> tuple[Site, ...]:
    """The points of the residual stream: at the start, then after every layer's two parts."""
    layers = range(n_layer)
    parts: tuple[StageName, ...] = ("residual_mid", "residual_out")
    after = [(key, n) for n in layers for key in parts]
    return (("token_embedding", None), ("embedding", None), *after)


def addition_sites(n_layer: int) -> tuple[Site, ...]:
    """The sites of what every layer's attention and MLP add to the stream."""
    parts: tuple[StageName, ...] = ("attention_output", "mlp_output")
    return tuple((key, n) for n in range(n_layer) for key in parts)


def path(a: Trace, b: Trace, at: tuple[int, int], sites: Sequence[Site]) -> Path:
    """Compare token ``at[0]`` of one run with token ``at[1]`` of another, site by site.

    In double precision from the runs' float32. Raises ``PlaceError`` for a token that doesn't
    exist, ``ArgumentError`` for models with different numbers of channels.
    """
    if a.config.n_embd != b.config.n_embd:
        raise ArgumentError(f"one run has {a.config.n_embd} channels, the other {b.config.n_embd}")
    vectors = [(vector_at(a, site, at[0]), vector_at(b, site, at[1])) for site in sites]
    return Path(
        tuple(sites),
        np.array([_cosine(x, y) for x, y in vectors]),
        np.array([np.abs(x - y).max() for x, y in vectors]),
    )


def vector_at(trace: Trace, site: Site, position: int) -> Numbers:
    """A stage at one token, in double precision: (C,). Raises ``PlaceError`` for another token."""
    vector: Numbers = trace.stage(*site)[0, trace.index_of(position)].astype(np.float64)
    return vector


def _cosine(x: Numbers, y: Numbers) -> float:
    if np.array_equal(x, y):  # equal to the last digit: 1, without rounding
        return 1.0
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / lengths if lengths else float("nan")


def largest_differences(a: Trace, b: Trace, matches: Sequence[tuple[int, int]]) -> Numbers:
    """The largest difference of two runs' attention weights in every head: (n_layer, n_head).

    max |w_b − w_a| over the queries and keys that both have: ``matches`` are positions in ``a``
    and ``b``. For the layers and heads that both models have; one matrix (M, M) at a time.
    """
    n_layer = min(a.config.n_layer, b.config.n_layer)
    n_head = min(a.config.n_head, b.config.n_head)
    left, right = (np.ix_(side, side) for side in zip(*matches, strict=True))
    result = np.empty((n_layer, n_head))
    for layer in range(n_layer):
        of_a, of_b = (run.stage("weights", layer)[0] for run in (a, b))
        for head in range(n_head):
            result[layer, head] = np.abs(of_b[head][right] - of_a[head][left]).max()
    return result


class Nearest(NamedTuple):
    """Vocabulary entries by cosine similarity: ``ids`` and ``cosine``, both (S, top)."""

    ids: NDArray[np.int64]
    cosine: Numbers


def nearest(trace: Trace, position: int, sites: Sequence[Site], top: int) -> Nearest:
    """The tokens whose rows of the unembedding are most similar to a token's vector.

    At each site, by cosine similarity, best first; rows of zeros, as in a padded table, come last
    with NaN. In GPT-2 the unembedding is also the token embedding, so at the first site a token
    is nearest to itself.
    """
    lengths: Array = np.linalg.norm(trace.unembedding, axis=1)
    lengths[lengths == 0] = np.nan
    vectors = np.stack([vector_at(trace, site, position) for site in sites])  # (S, C)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = vectors.astype(np.float32) @ trace.unembedding.T / lengths  # (S, n_vocab)
    ids = np.stack([largest(row, top) for row in cosine])
    return Nearest(ids, np.take_along_axis(cosine, ids, axis=1).astype(np.float64))
