"""What a head does: one number a head for each habit that the literature has a name for.

Five scores are the same measurement of different targets: over the queries that have a target,
the mean of the weight on all of them together. 1 is a head that does nothing else, 0 one that
never does it. The first query is left out of every score: under the causal mask it sees only
itself, so that all heads are alike there.

After Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", and Olsson et al.
2022, "In-context Learning and Induction Heads".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array, Pairs
from gpt2viz.run.stages import Scale
from gpt2viz.run.trace import Trace

Scores = NDArray[np.float64]
TokenIds = Sequence[int]

#: The probe says so many random tokens twice, or as many as the model has positions for.
PERIOD = 50
#: What the probe's tokens are drawn with.
SEED = 0


def previous_token(ids: TokenIds) -> Pairs:
    """(T, T): the token just before the query. Elhage et al. 2021."""
    return np.eye(len(ids), k=-1, dtype=bool)


def same_token(ids: TokenIds) -> Pairs:
    """(T, T): the query's own token."""
    return np.eye(len(ids), dtype=bool)


def first_token(ids: TokenIds) -> Pairs:
    """(T, T): token 0, where idle heads rest. Xiao et al. 2023, "Efficient Streaming Language
    Models with Attention Sinks".
    """
    found = np.zeros((len(ids), len(ids)), bool)
    found[:, 0] = True
    return found


def duplicate_token(ids: TokenIds) -> Pairs:
    """(T, T): earlier tokens equal to the query's. Wang et al. 2023, "Interpretability in the
    Wild", section 3.1.
    """
    here = np.asarray(ids)
    return np.tril(here[:, None] == here, -1)


def induction(ids: TokenIds) -> Pairs:
    """(T, T): what followed earlier tokens equal to the query's. Olsson et al. 2022.

    Where a token is said twice in a row, what followed the first is the query itself.
    """
    found = np.zeros((len(ids), len(ids)), bool)
    found[:, 1:] = duplicate_token(ids)[:, :-1]
    return found


def weight_on(weights: Array, targets: Pairs) -> Scores:
    """Mean weight on the ``targets`` (T, T) of a query together: (…, T, T) -> (…), in [0, 1].

    The mean is over the queries that have a target, the first query left out; NaN where none has.
    """
    queries = 1 + np.flatnonzero(targets[1:].any(axis=1))
    return _mean(
        np.einsum("...qk,qk->...q", weights[..., queries, :], targets[queries], dtype=np.float64)
    )


def distance(weights: Array) -> Scores:
    """Mean distance |query − key| in tokens, by weight: (…, T, T) -> (…), from 0 to T − 1."""
    T = weights.shape[-1]
    apart = np.abs(np.arange(T)[:, None] - np.arange(T))
    return _mean(np.einsum("...qk,qk->...q", weights, apart, dtype=np.float64)[..., 1:])


def entropy(weights: Array) -> Scores:
    """Mean of −Σ w log₂ w over each query's row, in bits: (…, T, T) -> (…), 0 to log₂ T.

    0 is a head that gives each query one key; k bits spread as over 2ᵏ keys alike (Clark et al.
    2019, "What Does BERT Look At?", section 3.2, there in nats).
    """
    rows = weights[..., 1:, :]
    logs = np.log2(np.maximum(rows, np.finfo(rows.dtype).tiny))  # 0 · log 0 is 0
    return _mean(-np.einsum("...qk,...qk->...q", rows, logs, dtype=np.float64)) + 0.0  # no −0


def largest(weights: Array) -> Scores:
    """The largest single weight: (…, T, T) -> (…), in [0, 1]."""
    rows = weights[..., 1:, :]
    if not rows.shape[-2]:
        return np.full(weights.shape[:-2], np.nan)
    found: Scores = rows.max(axis=(-2, -1)).astype(np.float64)
    return found


def _mean(by_query: Scores) -> Scores:
    if not by_query.shape[-1]:
        return np.full(by_query.shape[:-1], np.nan)
    mean: Scores = by_query.mean(axis=-1)
    return mean


@dataclass(frozen=True)
class Score:
    """One habit: its name, its formula, what it says in plain words, and how it is computed.

    ``of`` takes a layer's weights (nh, T, T) and the token ids (T,) and gives (nh,). "unit"
    scores are in [0, 1]; "amount" ones start at 0 and have a ``unit``.
    """

    name: str
    formula: str
    meaning: str
    of: Callable[[Array, TokenIds], Scores]
    scale: Scale = "unit"
    unit: str = ""


def _on(targets: Callable[[TokenIds], Pairs]) -> Callable[[Array, TokenIds], Scores]:
    return lambda weights, ids: weight_on(weights, targets(ids))


_ALL = (
    Score(
        "previous token",
        "mean over queries t ≥ 1 of w(t, t−1)",
        "It looks at the token just before (Elhage et al. 2021).",
        _on(previous_token),
    ),
    Score(
        "same token",
        "mean over queries t ≥ 1 of w(t, t)",
        "It looks at the query's own token.",
        _on(same_token),
    ),
    Score(
        "first token",
        "mean over queries t ≥ 1 of w(t, 0)",
        "It rests on the first token, as heads do when they find nothing (Xiao et al. 2023).",
        _on(first_token),
    ),
    Score(
        "duplicate token",
        "mean over queries t whose token x(t) came before of Σ w(t, j), all j < t with x(j) = x(t)",
        "It looks at an earlier occurrence of the query's own token (Wang et al. 2023).",
        _on(duplicate_token),
    ),
    Score(
        "induction",
        "mean over queries t whose token x(t) came before of Σ w(t, j), all j ≤ t with "
        "x(j−1) = x(t)",
        "It looks at what **followed** an earlier occurrence of the query's token, which is the "
        "token to copy if the text repeats itself (Olsson et al. 2022).",
        _on(induction),
    ),
    Score(
        "largest weight",
        "max over queries t ≥ 1 and keys j of w(t, j)",
        "The largest single weight that it gives anywhere.",
        lambda weights, _ids: largest(weights),
    ),
    Score(
        "mean distance",
        "mean over queries t ≥ 1 of Σⱼ w(t, j) · |t − j|",
        "How far away it looks, in tokens.",
        lambda weights, _ids: distance(weights),
        scale="amount",
        unit="tokens",
    ),
    Score(
        "entropy",
        "mean over queries t ≥ 1 of −Σⱼ w(t, j) · log₂ w(t, j)",
        "How widely it spreads: 0 bits is one key per query, and each further bit doubles the "
        "keys.",
        lambda weights, _ids: entropy(weights),
        scale="amount",
        unit="bits",
    ),
)

#: Every score by name, in the order in which they are shown. It can't be changed.
SCORES: Mapping[str, Score] = MappingProxyType({score.name: score for score in _ALL})


def head_scores(trace: Trace) -> dict[str, Scores]:
    """Every score of every head of a run: (n_layer, n_head) by name, one layer at a time."""
    by_layer = [
        [score.of(trace.stage("weights", layer)[0], trace.token_ids) for score in SCORES.values()]
        for layer in range(trace.config.n_layer)
    ]
    return {name: np.stack([row[n] for row in by_layer]) for n, name in enumerate(SCORES)}


def probe(vocab_size: int, n_positions: int) -> tuple[int, ...]:
    """Different random tokens, then the same ones again: a text that can be predicted only by
    copying.

    Token ids (2 · period,), the same each time; none where there is no room for two. Olsson et
    al. 2022 find induction heads with it.
    """
    period = min(PERIOD, n_positions // 2, vocab_size)
    half = np.random.default_rng(SEED).choice(vocab_size, period, replace=False)
    return tuple(int(n) for n in np.tile(half, 2))
