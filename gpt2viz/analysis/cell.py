"""A cell of a head's weights: its name in addresses, and its arithmetic with a run's numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpt2viz.analysis.circuits import rotate
from gpt2viz.arrays import Array, Numbers
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.edits import head_scale_factors
from gpt2viz.run.stages import StageName
from gpt2viz.run.trace import Trace


class HeadCell(NamedTuple):
    """A cell of a head's weights: a query and the key it attends to. Written "1.4:8:2"."""

    layer: int
    head: int
    query: int
    key: int

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}:{self.query}:{self.key}"


def parse_path(text: str) -> tuple[HeadCell, ...]:
    """Parse "1.4:8:2,0.0:2:1". Raises ``ValueError`` for anything else."""
    if not re.fullmatch(r"\d+\.\d+:\d+:\d+(,\d+\.\d+:\d+:\d+)*", text, re.ASCII):
        raise ValueError(text)
    return tuple(HeadCell(*map(int, re.split("[.:]", part))) for part in text.split(","))


def remap_path(path: Iterable[HeadCell], to: Callable[[int], int | None]) -> tuple[HeadCell, ...]:
    """The path for a text whose tokens have moved: ``to`` gives the new position, or None.

    It ends before the first cell with a token for which it is None.
    """
    result: list[HeadCell] = []
    for cell in path:
        query, key = to(cell.query), to(cell.key)
        if query is None or key is None:
            break
        result.append(cell._replace(query=query, key=key))
    return tuple(result)


@dataclass(frozen=True, eq=False)
class CellArithmetic:
    """The weight of query i on key j, step by step (Vaswani et al. 2017, equation 1).

    ``unrotated`` are q[i] and k[j] before RoPE, empty in models without it;
    ``products`` (hs,) are q[d]·k[d]; ``score`` is their sum and ``scaled`` that sum over
    ``divisor``, which is √hs in most models; ``masked`` is True where the mask replaced it by −∞.
    ``exponentials`` (T,) are e^(x − largest of the row), ``weights`` (T,) those over their
    sum; ``value`` (hs,) is v[j], ``contribution`` (hs,) factor·weight·v[j] and ``output`` (hs,) the
    sum of all keys'.
    ``factor`` is 1 unless an edit scales the head, or replaces its output by 0 or a mean (then it
    is 0, and the ``output`` the replacement).
    The ``model_…`` fields are what the model itself computed for the same quantity.
    """

    unrotated: tuple[Numbers, ...]
    query: Numbers
    key: Numbers
    products: Numbers
    score: float
    divisor: float
    scaled: float
    masked: bool
    row: Numbers
    exponentials: Numbers
    weights: Numbers
    factor: float
    value: Numbers
    contribution: Numbers
    output: Numbers
    model_score: float
    model_scaled: float
    model_weight: float
    model_output: Array

    @property
    def largest_difference(self) -> float:
        """The largest distance between a number computed here and the model's own."""
        return max(
            abs(self.score - self.model_score),
            abs(self.scaled - self.model_scaled),
            float(np.abs(self.output - self.model_output).max()),
        )


def cell_arithmetic(trace: Trace, layer: int, head: int, i: int, j: int) -> CellArithmetic:
    """Compute cell (query ``i``, key ``j``) in double precision, all counted from 0.

    It ends with the head's output: whether the layer's attention is switched off doesn't matter.
    """

    def stage(key: StageName) -> Array:
        return trace.stage(key, layer, head)

    q, k, v = (x.astype(np.float64) for x in (stage("q"), stage("k"), stage("v")))  # (T, hs)
    products = q[i] * k[j]
    score = float(products.sum())
    divisor = math.sqrt(q.shape[1]) * trace.config.layer_divisor(layer)
    row = stage("masked_scores")[i].astype(np.float64)
    exponentials = np.exp(row - row.max())
    weights = exponentials / exponentials.sum()
    factor = float(head_scale_factors(trace.edits, layer, trace.config.n_head)[head])
    values = factor * v if factor else np.zeros_like(v)  # NaN times 0 is NaN
    before: tuple[tuple[StageName, int], ...] = (("q_unrotated", i), ("k_unrotated", j))
    return CellArithmetic(
        unrotated=tuple(stage(n)[at].astype(np.float64) for n, at in before if n in trace.graph),
        query=q[i],
        key=k[j],
        products=products,
        score=score,
        divisor=divisor,
        scaled=score / divisor,
        masked=bool(np.isneginf(row[j])),
        row=row,
        exponentials=exponentials,
        weights=weights,
        factor=factor,
        value=v[j],
        contribution=weights[j] * values[j],
        output=weights @ values if factor else stage("head_output")[i].astype(np.float64),
        model_score=float(stage("scores")[i, j]),
        model_scaled=float(stage("scaled_scores")[i, j]),
        model_weight=float(stage("weights")[i, j]),
        model_output=stage("head_output")[i],
    )


def scores_at(model: Model, trace: Trace, cell: HeadCell, distances: Sequence[int]) -> Numbers:
    """The scaled scores of a cell if its query were at each distance after its key: (n,).

    Query and key as they are before RoPE, rotated to each of n ``distances``: their product
    depends on nothing else of the positions (Su et al. 2021). In double precision from the run's
    float32. Raises ``StageError`` in models without RoPE.
    """
    layer, head, query, key = cell
    q = trace.stage("q_unrotated", layer, head)[query].astype(np.float64)  # (hs,)
    k = trace.stage("k_unrotated", layer, head)[key].astype(np.float64)  # (hs,)
    rotated = rotate(model, layer, np.tile(q, (len(distances), 1)), np.asarray(distances))
    scores: Numbers = rotated @ k / (math.sqrt(len(k)) * trace.config.layer_divisor(layer))
    return scores
