"""From a trace to panels: which matrix, under which name, with which tokens on its sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpt2viz.figures.panel import Axis, Mask, Matrix, Panel
from gpt2viz.figures.pooling import pool_panel
from gpt2viz.stages import STAGE, Scale
from gpt2viz.traces import Array, Trace

#: The stages on which the mask shows: those before it don't know of it yet.
_MASKED_TEXT = {
    "masked_scores": "masked: −∞, because this key comes later",
    "weights": "masked: exactly 0, because this key comes later",
}


#: Cells along one side of a head among all heads; a longer text is pooled to this many.
GRID = 256


def mask_of(trace: Trace, layer: int, head: int) -> Mask:
    """The cells (T, T) that were forbidden in this run: where the masked score is −∞."""
    masked: Mask = np.isneginf(trace.stage("masked_scores", layer)[0, head])
    return masked


def who_sees_whom(trace: Trace, labels: Sequence[str], title: str) -> Panel:
    """1 where the query may see the key, masked where it may not, as the run had it."""
    masked = mask_of(trace, layer=0, head=0)
    return Panel(
        title=title,
        values=(~masked).astype(np.float32),
        rows=Axis("query", labels),
        columns=Axis("key", labels),
        name="mask",
        quantity="1 for yes:",
        masked=masked,
        masked_text="no: this key comes later",
    )


def head_stage(
    trace: Trace, labels: Sequence[str], key: str, layer: int, head: int, title: str
) -> Panel:
    """One stage of one head: (T, T) with queries down and keys across, or (T, hs).

    ``key`` is one of ``HEAD_STAGES``; ``labels`` are the T tokens as written on screen.
    """
    stage = STAGE[key]
    values = trace.stage(key, layer)[0, head]
    pairs = stage.axes[-1] == "T"
    return Panel(
        title=title,
        values=values,
        rows=Axis("query", labels) if pairs else Axis("token", labels),
        columns=Axis("key", labels)
        if pairs
        else Axis("dimension", [str(n) for n in range(values.shape[1])]),
        name=key,
        quantity=stage.quantity,
        masked=mask_of(trace, layer, head) if key in _MASKED_TEXT else None,
        masked_text=_MASKED_TEXT.get(key, ""),
    )


@dataclass(frozen=True, eq=False)
class Measure:
    """One number for every query and key of every head of a layer: (nh, T, T).

    ``hidden`` (nh, T, T) are the cells without a number; ``hidden_text`` says why, under the
    pointer, and ``hidden_name`` in the legend.
    """

    values: Array
    hidden: NDArray[np.bool_]
    quantity: str
    hidden_text: str
    hidden_name: str = "masked (a later key)"
    scale: Scale = "unit"


def weights_measure(trace: Trace, layer: int) -> Measure:
    """The attention weights of a layer, as the run had them."""
    return Measure(
        trace.stage("weights", layer)[0],
        np.isneginf(trace.stage("masked_scores", layer)[0]),
        "attention weight",
        _MASKED_TEXT["weights"],
    )


def one_head(measure: Measure, labels: Sequence[str], head: int, title: str, name: str) -> Panel:
    """One head's matrix (T, T), queries down and keys across. A click on it carries ``name``."""
    return Panel(
        title=title,
        values=measure.values[head],
        rows=Axis("query", labels),
        columns=Axis("key", labels),
        name=name,
        quantity=measure.quantity,
        masked=measure.hidden[head],
        masked_text=measure.hidden_text,
        masked_name=measure.hidden_name,
    )


def all_heads(measure: Measure, labels: Sequence[str]) -> list[Panel]:
    """Every head of a layer, at most ``GRID`` cells along each side.

    A click carries the head's number.
    """
    return [
        pool_panel(one_head(measure, labels, head, f"Head {head}", str(head)), GRID)
        for head in range(len(measure.values))
    ]


def weights_or_mean(
    trace: Trace, labels: Sequence[str], layer: int, head: int | None, title: str
) -> Panel:
    """The weights (T, T) of one head, or where ``head`` is None the mean over the layer's heads."""
    if head is not None:
        return head_stage(trace, labels, "weights", layer, head, title)
    return Panel(
        title=title,
        values=trace.stage("weights", layer)[0].mean(axis=0),
        rows=Axis("query", labels),
        columns=Axis("key", labels),
        name="mean",
        masked=mask_of(trace, layer, 0),
        masked_text=_MASKED_TEXT["weights"],
    )


def difference(a: Panel, b: Panel, title: str) -> Panel:
    """a − b, cell by cell. A cell is masked only where both are: elsewhere 0 is a number."""
    masked: Mask | None = None
    if a.masked is not None and b.masked is not None:
        masked = a.masked & b.masked
    values: Matrix = a.values - b.values
    return Panel(
        title=title,
        values=values,
        rows=a.rows,
        columns=a.columns,
        name="difference",
        quantity="difference of weights",
        masked=masked,
        masked_text="masked in both",
    )
