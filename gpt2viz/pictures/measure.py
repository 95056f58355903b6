"""One number for every query and key of every head of a layer, and the panels drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpt2viz.analysis.words import group_words, word_starts
from gpt2viz.arrays import Array
from gpt2viz.labels import label
from gpt2viz.pictures.from_trace import hidden_in, mask_of
from gpt2viz.pictures.panel import Axis, HeadOfRun, Panel
from gpt2viz.run.key import RunKey
from gpt2viz.run.stages import Scale
from gpt2viz.run.trace import Trace


@dataclass(frozen=True, eq=False)
class Measure:
    """One number for every query and key of every head of a layer: (nh, T, T).

    ``labels`` are the T tokens as written on screen, and ``positions`` their places in the text
    where they are words, which begin at one of the tokens. ``hidden`` (nh, T, T) are the cells
    without a number; ``hidden_text`` says why, under the pointer, and ``hidden_name`` in the
    legend. ``of`` are the run and the layer, where each number is one head's, between two tokens.
    """

    values: Array
    labels: Sequence[str]
    hidden: NDArray[np.bool_]
    quantity: str
    hidden_text: str
    hidden_name: str
    scale: Scale = "unit"
    positions: Sequence[int] | None = None
    of: tuple[RunKey, int] | None = None


def weights_measure(trace: Trace, labels: Sequence[str], layer: int) -> Measure:
    """The attention weights of a layer, as the run had them."""
    weights = trace.stage("weights", layer)[0]
    return Measure(
        weights,
        labels,
        np.broadcast_to(mask_of(trace, layer, 0), weights.shape),  # no head has a mask of its own
        "attention weight",
        hidden_in(trace).text(),
        hidden_in(trace).name,
        of=(trace.key, layer),
    )


def in_words(measure: Measure, trace: Trace) -> Measure:
    """A measure whose rows sum to 1, between words: (nh, T, T) -> (nh, W, W).

    Grouped as ``gpt2viz.group_words`` does. A cell is hidden where all its tokens' cells are.
    """
    starts = word_starts(trace.token_bytes, trace.apart)
    ends = (*starts[1:], len(trace.token_bytes))
    hidden = np.logical_and.reduceat(measure.hidden, starts, axis=-1)
    return replace(
        measure,
        values=group_words(measure.values, starts),
        labels=[
            label(b"".join(trace.token_bytes[start:end]))
            for start, end in zip(starts, ends, strict=True)
        ],
        hidden=np.logical_and.reduceat(hidden, starts, axis=-2),
        quantity=f"{measure.quantity} between words",
        positions=starts,
        of=None,
    )


def mean_of_heads(measure: Measure) -> Measure:
    """The mean of a layer's heads, as a measure of one head: (1, T, T)."""
    mean = measure.values.mean(axis=0, keepdims=True)
    return replace(measure, values=mean, hidden=measure.hidden[:1], of=None)


def one_head(measure: Measure, head: int, title: str, name: str) -> Panel:
    """One head's matrix (T, T), queries down and keys across. A click on it carries ``name``."""
    return Panel(
        title=title,
        values=measure.values[head],
        rows=Axis("query", measure.labels, measure.positions),
        columns=Axis("key", measure.labels, measure.positions),
        name=name,
        quantity=measure.quantity,
        masked=measure.hidden[head],
        masked_text=measure.hidden_text,
        masked_name=measure.hidden_name,
        head=None if measure.of is None else HeadOfRun(*measure.of, head),
    )
