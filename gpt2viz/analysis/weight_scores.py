"""Heads scored by their weights alone: one number per head for each habit, whatever the text.

Each score is declared once, at the end of this file, as those of a run are in ``scores``. They are
computed from a ``HeadCircuit``, by the conventions of ``circuits``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType

import numpy as np

from gpt2viz.analysis.circuits import HeadCircuit, every_circuit
from gpt2viz.analysis.scores import Scores
from gpt2viz.model.checkpoint import Model


@dataclass(frozen=True)
class WeightScore:
    """One habit by the weights alone: name, formula, plain words, and its function of a circuit.

    ``lowest`` and ``highest`` are the ends of its range; ``highest`` is None for an amount,
    which has a ``unit``. ``source`` cites who described it, "" if it is common knowledge. ``title``
    is shown to visitors, by default the name.
    """

    name: str
    formula: str
    meaning: str
    function: Callable[[HeadCircuit], float]
    lowest: float = 0.0
    highest: float | None = 1.0
    unit: str = ""
    source: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name)

    @property
    def words(self) -> str:
        """Its meaning and, in brackets, its source: Markdown."""
        authors = self.source.partition(",")[0]
        return f"{self.meaning.removesuffix('.')} ({authors})." if authors else self.meaning


def one_back(circuit: HeadCircuit) -> float:
    """Mean weight on the key just before, by positions alone: 0 to 1; NaN for a single one."""
    weights = circuit.place_weights.by_distance
    return float(weights[1]) if len(weights) > 1 else float("nan")


def offset(circuit: HeadCircuit) -> float:
    """The distance that gets most weight, by positions alone, in tokens; NaN for a single one."""
    single = len(circuit.place_weights.by_distance) == 1
    return float("nan") if single else float(circuit.offset)


_ELHAGE = "Elhage et al. 2021, A Mathematical Framework for Transformer Circuits"
_ALL = (
    WeightScore(
        "previous token",
        "mean over positions t ≥ 1 of w(t, t−1), w by positions alone",
        "By positions alone it attends to the token just before.",
        one_back,
        source=_ELHAGE,
    ),
    WeightScore(
        "same token",
        "Σλ / Σ|λ|, λ the eigenvalues of W_E W_Q W_Kᵀ W_Eᵀ",
        "By tokens alone a query attends to its own token, anywhere, or at distance 0 where "
        "positions turn keys (RoPE); below 0 it avoids it.",
        attrgetter("matching_score"),
        lowest=-1.0,
        source=_ELHAGE,
    ),
    WeightScore(
        "first token",
        "mean over positions t ≥ 1 of w(t, 0), w by positions alone",
        "By positions alone it rests on the first token.",
        attrgetter("place_weights.first"),
    ),
    WeightScore(
        "copying",
        "Σλ / Σ|λ|, λ the eigenvalues of W_E W_V W_O W_U",
        "It raises the logit of the tokens that it attends to; below 0 it lowers them.",
        attrgetter("copying_score"),
        lowest=-1.0,
        source=_ELHAGE,
        title="copying (OV)",
    ),
    WeightScore(
        "offset",
        "argmax over d of the mean over positions t ≥ 1 of w(t, t−d), w by positions alone",
        "By positions alone, how far back its largest mean weight is.",
        offset,
        highest=None,
        unit="tokens",
    ),
)

#: Every score by name, in the order in which they are shown. It is read-only.
WEIGHT_SCORES: Mapping[str, WeightScore] = MappingProxyType({score.name: score for score in _ALL})


def weight_scores(
    model: Model, progress: Callable[[float], object] = lambda _share: None
) -> dict[str, Scores]:
    """Every score of every head by its weights alone: (n_layer, n_head) by name.

    ``progress`` is called after each head with the share done; an exception it raises ends this.
    """
    sizes = model.config.n_layer, model.config.n_head
    result = {name: np.full(sizes, np.nan) for name in WEIGHT_SCORES}
    for n, circuit in enumerate(every_circuit(model), start=1):
        for name, score in WEIGHT_SCORES.items():
            result[name][circuit.layer, circuit.head] = score.function(circuit)
        progress(n / (sizes[0] * sizes[1]))
    return result
