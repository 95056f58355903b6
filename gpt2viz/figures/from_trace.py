"""From a trace to panels: which matrix, under which name, with which tokens on its sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpt2viz.figures.panel import Axis, Mask, Matrix, Panel
from gpt2viz.stages import STAGE
from gpt2viz.traces import Trace

#: The stages on which the mask shows: those before it don't know of it yet.
MASKED_TEXT = {
    "masked_scores": "masked: −∞, because this key comes later",
    "weights": "masked: exactly 0, because this key comes later",
}


def mask_of(trace: Trace, layer: int, head: int) -> Mask:
    """The cells (T, T) that were forbidden in this run: where only the masked score is −∞."""
    masked: Mask = np.isneginf(trace.stage("masked_scores", layer, head))
    overflowed = np.isneginf(trace.stage("scaled_scores", layer, head))
    return masked & ~(overflowed & ~_forbidden(trace)) if overflowed.any() else masked


def _forbidden(trace: Trace) -> Mask:
    """What the run was told to hide (T, T), for scores that are −∞ without a mask."""
    n_tokens = len(trace.token_ids)
    later = np.triu(np.ones((n_tokens, n_tokens), bool), 1) & trace.causal
    return later if trace.forbidden is None else later | trace.forbidden


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
    values = trace.stage(key, layer, head)
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
        masked=mask_of(trace, layer, head) if key in MASKED_TEXT else None,
        masked_text=MASKED_TEXT.get(key, ""),
    )


#: The scale of differences between weights reaches at least that far.
LEAST_DIFFERENCE = 0.01


def difference(a: Panel, b: Panel, title: str) -> Panel:
    """a − b, cell by cell. A cell is masked only where both are: elsewhere 0 is a number."""
    masked: Mask | None = None
    if a.masked is not None and b.masked is not None:
        masked = a.masked & b.masked
    values: Matrix = a.values - b.values
    weights = a.quantity.startswith("attention weight")
    return Panel(
        title=title,
        values=values,
        rows=a.rows,
        columns=a.columns,
        name="difference",
        quantity="difference of weights" if weights else f"difference: {a.quantity}",
        masked=masked,
        masked_text="masked in both",
        least=LEAST_DIFFERENCE,
    )
