"""Head scores: one number per head for each habit that has a name in the literature.

Each score is declared once, at the end of this file: name, formula, source, words and the function
that computes it. Other packages may add theirs (``gpt2viz.plugins``), and a program its own
(``register_score``). Pages, surveys, the command line and training read that list.

Five scores are the same measurement with different targets: over the queries that have a target,
the mean of the total weight on their targets. 1 is a head that does nothing else, 0 one that
never does it. The first query is left out of every score: under the causal mask it sees only
itself, so all heads are alike there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpt2viz import plugins
from gpt2viz.arrays import Array, Numbers, Pairs
from gpt2viz.errors import PluginError
from gpt2viz.run.stages import Scale
from gpt2viz.run.trace import Trace, check_trace

Scores = Numbers
TokenIds = Sequence[int]
#: The input on which a model in training is scored: any text, or random tokens repeated once.
MeasuredOn = Literal["text", "probe"]

#: How many random tokens the probe repeats, unless the model has too few positions.
PERIOD = 50
#: The seed of the probe's tokens.
SEED = 0


def previous_token(ids: TokenIds) -> Pairs:
    """(T, T): the token just before the query."""
    return np.eye(len(ids), k=-1, dtype=bool)


def same_token(ids: TokenIds) -> Pairs:
    """(T, T): the query's own token."""
    return np.eye(len(ids), dtype=bool)


def first_token(ids: TokenIds) -> Pairs:
    """(T, T): token 0, on which idle heads rest."""
    pairs = np.zeros((len(ids), len(ids)), bool)
    pairs[:, 0] = True
    return pairs


def duplicate_token(ids: TokenIds) -> Pairs:
    """(T, T): earlier tokens equal to the query's."""
    here = np.asarray(ids)
    return np.tril(here[:, None] == here, -1)


def induction(ids: TokenIds) -> Pairs:
    """(T, T): the tokens after earlier occurrences of the query's.

    If a token occurs twice in a row, the token after the first is the query itself.
    """
    pairs = np.zeros((len(ids), len(ids)), bool)
    pairs[:, 1:] = duplicate_token(ids)[:, :-1]
    return pairs


def weight_on(weights: Array, targets: Pairs) -> Scores:
    """Mean total weight of a query on its ``targets`` (T, T): (…, T, T) -> (…), in [0, 1].

    The mean is over the queries that have a target, the first query left out; NaN if none has.
    """
    queries = 1 + np.flatnonzero(targets[1:].any(axis=1))
    return _mean(
        np.einsum("...qk,qk->...q", weights[..., queries, :], targets[queries], dtype=np.float64)
    )


def distance(weights: Array, _ids: TokenIds = ()) -> Scores:
    """Mean distance |query − key| in tokens, by weight: (…, T, T) -> (…), from 0 to T − 1."""
    T = weights.shape[-1]
    apart = np.abs(np.arange(T)[:, None] - np.arange(T))
    return _mean(np.einsum("...qk,qk->...q", weights, apart, dtype=np.float64)[..., 1:])


def entropy(weights: Array, _ids: TokenIds = ()) -> Scores:
    """Mean of −Σ w log₂ w over each query's row, in bits: (…, T, T) -> (…), 0 to log₂ T.

    0 is a head that gives each query one key; k bits are as spread out as 2ᵏ equal weights.
    """
    rows = weights[..., 1:, :]
    logs = np.log2(np.maximum(rows, np.finfo(rows.dtype).tiny))  # 0 · log 0 is 0
    return _mean(-np.einsum("...qk,...qk->...q", rows, logs, dtype=np.float64)) + 0.0  # no −0


def largest(weights: Array, _ids: TokenIds = ()) -> Scores:
    """The largest single weight: (…, T, T) -> (…), in [0, 1]."""
    rows = weights[..., 1:, :]
    if not rows.shape[-2]:
        return np.full(weights.shape[:-2], np.nan)
    result: Scores = rows.max(axis=(-2, -1)).astype(np.float64)
    return result


def _mean(by_query: Scores) -> Scores:
    if not by_query.shape[-1]:
        return np.full(by_query.shape[:-1], np.nan)
    mean: Scores = by_query.mean(axis=-1)
    return mean


@dataclass(frozen=True)
class WeightOn:
    """The score of a habit: the weight on its ``targets``, by ``weight_on``."""

    targets: Callable[[TokenIds], Pairs]

    def __call__(self, weights: Array, ids: TokenIds) -> Scores:
        """Weights (…, T, T) and token ids (T,) to scores (…), in [0, 1]."""
        return weight_on(weights, self.targets(ids))


@dataclass(frozen=True)
class Score:
    """One habit: its name, its formula, what it says in plain words, and how it is computed.

    ``function`` takes a layer's weights (nh, T, T) and the token ids (T,) and returns (nh,), NaN
    for a head without such a number on this text. "unit" scores are in [0, 1]; "amount" ones start
    at 0 and have a ``unit``. ``source`` cites who described it, "" if it is common knowledge;
    ``by`` names who added it, "" if it is declared here.

    A model in training is scored on text or, for a habit that shows only where tokens repeat,
    on the "probe" (``measured_on``). ``record`` is the score's name in the training record,
    "" if it isn't recorded there; ``term`` is the glossary's word for such a head, if any.
    ``title`` is shown to visitors, by default the name.
    """

    name: str
    formula: str
    meaning: str
    function: Callable[[Array, TokenIds], Scores]
    scale: Scale = "unit"
    unit: str = ""
    source: str = ""
    measured_on: MeasuredOn = "text"
    record: str = ""
    term: str = ""
    by: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name)

    def measure(self, weights: Array, ids: TokenIds) -> Scores:
        """Score a layer's heads: weights (nh, T, T) and the token ids (T,) -> (nh,).

        Raises ``PluginError`` if another package's score raises, or returns something else.
        """
        if not self.by:
            return self.function(weights, ids)
        with plugins.guard(lambda error: self._failure(f"raised {error}")):
            result = np.asarray(self.function(weights, ids), np.float64)
        if result.shape != (heads := weights.shape[:-2]):
            what = f"returned the shape {result.shape} instead of {heads}, a number a head"
            raise PluginError(self._failure(what))
        if np.isinf(result).any():
            raise PluginError(self._failure("returned ∞; a head without such a number has NaN"))
        return result

    def _failure(self, what: str) -> str:
        message = f"The head score {self.name!r} of {self.by} {what}."
        return f"{message} Fix or uninstall that package."

    @property
    def words(self) -> str:
        """Its meaning and, in brackets, its source; then who added it: Markdown."""
        authors = self.source.partition(",")[0]
        text = f"{self.meaning.removesuffix('.')} ({authors})." if authors else self.meaning
        return f"{text} Added by {self.by}." if self.by else text

    @property
    def targets(self) -> Callable[[TokenIds], Pairs] | None:
        """The keys (T, T) whose weight it measures; None for any other kind of score."""
        return self.function.targets if isinstance(self.function, WeightOn) else None

    @property
    def code(self) -> tuple[Callable[..., object], ...]:
        """The functions that compute it."""
        return (self.targets, weight_on) if self.targets else (self.function,)


#: Every score that gpt2viz itself has, in the order in which they are shown.
DECLARED: tuple[Score, ...] = (
    Score(
        "previous token",
        "mean over queries t ≥ 1 of w(t, t−1)",
        "It attends to the token just before.",
        WeightOn(previous_token),
        source="Elhage et al. 2021, A Mathematical Framework for Transformer Circuits",
        record="previous",
        term="previous-token-head",
    ),
    Score(
        "same token",
        "mean over queries t ≥ 1 of w(t, t)",
        "It attends to the query itself.",
        WeightOn(same_token),
    ),
    Score(
        "first token",
        "mean over queries t ≥ 1 of w(t, 0)",
        "It rests on the first token, as idle heads do.",
        WeightOn(first_token),
        source="Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks",
        record="first",
        term="attention-sink",
    ),
    Score(
        "duplicate token",
        "mean over queries t whose token x(t) came before of Σ w(t, j), all j < t with x(j) = x(t)",
        "If the token occurred before, it attends to that earlier occurrence.",
        WeightOn(duplicate_token),
        source="Wang et al. 2023, Interpretability in the Wild, section 3.1",
        measured_on="probe",
    ),
    Score(
        "induction",
        "mean over queries t whose token x(t) came before of Σ w(t, j), all j ≤ t with "
        "x(j−1) = x(t)",
        "If the token occurred before, it attends to what **followed** it there: the token to copy "
        "if the text repeats itself.",
        WeightOn(induction),
        source="Olsson et al. 2022, In-context Learning and Induction Heads",
        measured_on="probe",
        record="induction",
        term="induction-head",
        title="copying (induction)",
    ),
    Score(
        "largest weight",
        "max over queries t ≥ 1 and keys j of w(t, j)",
        "Its largest single weight, anywhere.",
        largest,
    ),
    Score(
        "mean distance",
        "mean over queries t ≥ 1 of Σⱼ w(t, j) · |t − j|",
        "How far away it attends on average, in tokens.",
        distance,
        scale="amount",
        unit="tokens",
    ),
    Score(
        "entropy",
        "mean over queries t ≥ 1 of −Σⱼ w(t, j) · log₂ w(t, j)",
        "How widely it spreads its attention: 0 bits is one key per query, and each further bit "
        "doubles the keys.",
        entropy,
        scale="amount",
        unit="bits",
        source="Clark et al. 2019, What Does BERT Look At?, section 3.2, there in nats",
        term="entropy",
    ),
)


#: Every score by name, in the order in which they are shown. Only ``register_score`` changes it.
SCORES = plugins.Registry(DECLARED, plugins.SCORES, Score, "gpt2viz.heads.Score", "head score")


def register_score(score: Score) -> Score:
    """Register a score for as long as this program runs, and return it as listed.

    Everything that reads ``SCORES`` has it from then on: ``head_scores``, surveys in this process,
    the app if this program is the app. A score of the same name replaces the earlier one. A package
    adds its scores to every program by an entry point of the group ``gpt2viz.scores``.

    Raises ``PluginError`` for anything but a ``Score``, and for gpt2viz's and packages' names.
    """
    return SCORES.add(score)


def recorded_scores() -> list[Score]:
    """The scores that are recorded while a model trains."""
    return [score for score in SCORES.values() if score.record]


def head_scores(
    trace: Trace, failed: Callable[[PluginError], None] | None = None
) -> dict[str, Scores]:
    """Every score of every head of a run: (n_layer, n_head) by name, one layer at a time.

    Raises ``PluginError`` if another package's score can't be computed; with ``failed``, that
    is called with the error instead, and the score is NaN.
    """
    check_trace(trace)
    sizes = trace.config.n_layer, trace.config.n_head
    result = {name: np.full(sizes, np.nan) for name in SCORES}
    scores = list(SCORES.values())
    for layer in range(trace.config.n_layer):
        weights = trace.stage("weights", layer)[0]
        for score in tuple(scores):
            try:
                result[score.name][layer] = score.measure(weights, trace.token_ids)
            except PluginError as error:
                if failed is None:
                    raise
                failed(error)
                result[score.name][:] = np.nan
                scores.remove(score)
    return result


def probe(vocab_size: int, n_positions: int) -> tuple[int, ...]:
    """Different random tokens, then the same ones again: only copying can predict this text.

    Token ids (2 · period,), the same each time; empty if there is no room for two. Olsson et
    al. 2022 find induction heads with it.
    """
    period = min(PERIOD, n_positions // 2, vocab_size)
    half = np.random.default_rng(SEED).choice(vocab_size, period, replace=False)
    return tuple(int(n) for n in np.tile(half, 2))
