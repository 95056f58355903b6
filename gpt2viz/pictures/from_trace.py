"""From a trace to panels: a stage of a head, or one number for each pair of every head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gpt2viz.analysis.words import group_words, word_starts
from gpt2viz.arrays import Array, Pairs
from gpt2viz.labels import label
from gpt2viz.pictures.palette import LOWER, UPPER
from gpt2viz.pictures.panel import Axis, HeadOfRun, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.pooling import GRID, pool_panel
from gpt2viz.run.stages import STAGE, Scale
from gpt2viz.run.trace import Trace

#: The smallest and largest height in pixels of a picture of the stream, and a row's.
_LOW, _HIGH, _ROW = 320, 900, 28


class Hidden(NamedTuple):
    """The causes that hide keys from queries in some runs, and their texts."""

    later: bool
    edited: bool
    far: bool = False

    @property
    def name(self) -> str:
        """The legend's name for a masked cell."""
        kinds = ["a later key"] * self.later + ["outside the layer's window"] * self.far
        kinds += ["hidden by an edit"] * self.edited
        return f"masked ({', or '.join(kinds)})" if kinds else "masked"

    def text(self, key: str = "weights") -> str:
        """The pointer's text for a masked cell of the stage ``key``."""
        return f"masked: {STAGE[key].masked}, because {self.why}"

    @property
    def why(self) -> str:
        """Why a cell is masked."""
        reasons = ["this key comes later"] * self.later
        reasons += ["it is outside the layer's window"] * self.far
        reasons += ["an edit hides it"] * self.edited
        return " or ".join(reasons)


def mask_causes(*runs: Trace, layer: int | None = None) -> Hidden:
    """The causes that hide keys in any of these runs: the causal mask, their edits, or windows.

    A window counts if a ``layer``, by default any, has it and it is shorter than the text.
    """
    far = any(
        window < len(run.tokens)
        for run in runs
        for window in (run.windows if layer is None else [run.windows[layer]])
    )
    return Hidden(any(r.causal for r in runs), any(r.forbidden is not None for r in runs), far)


def mask_of(trace: Trace, layer: int, head: int) -> Pairs:
    """The cells (T, T) that the mask hid in this run: where only the masked score is −∞.

    A long run kept no scores; its mask follows without them.
    """
    if not trace.explicit:
        return trace.hidden_pairs(layer)
    masked: Pairs = np.isneginf(trace.stage("masked_scores", layer, head))
    (before,) = trace.graph["masked_scores"].reads  # it can be −∞ without a mask, too
    overflowed = np.isneginf(trace.stage(trace.graph[before].key, layer, head))
    return masked & ~(overflowed & ~trace.hidden_pairs(layer)) if overflowed.any() else masked


def who_sees_whom(trace: Trace, labels: Sequence[str], title: str, layer: int = 0) -> Panel:
    """1 where the query may see the key in a layer of the run, masked where it may not."""
    weights = stage_panel(trace, labels, "weights", layer, 0, title)
    return replace(
        weights,
        values=(~weights.hidden).astype(np.float32),
        name="mask",
        quantity="1 for yes:",
        masked_text=f"no: {mask_causes(trace, layer=layer).why}",
        head=None,
    )


def stage_panel(
    trace: Trace, labels: Sequence[str], key: str, layer: int | None, head: int | None, title: str
) -> Panel:
    """One stage: (T, T) with queries down and keys across, or (T, channels).

    ``head`` chooses one if every head has the stage; ``labels`` are the T tokens as written on
    screen.
    """
    stage = trace.graph[key]
    values = trace.stage(stage.key, layer, head)
    values = values[0] if values.ndim == 3 else values
    name = "dimension" if stage.of_head else "channel"
    channels = Axis(name, [str(n) for n in range(values.shape[1])])
    return Panel(
        title=title,
        values=values,
        rows=Axis("query" if stage.of_pairs else "token", labels),
        columns=Axis("key", labels) if stage.of_pairs else channels,
        name=key,
        quantity=stage.quantity,
        masked=mask_of(trace, layer or 0, head or 0) if stage.masked else None,
        masked_text=mask_causes(trace, layer=layer).text(key) if stage.masked else "",
        masked_name=mask_causes(trace, layer=layer).name,
        head=HeadOfRun(trace.key, layer or 0, head or 0) if stage.of_pairs else None,
    )


def stage_picture(trace: Trace, key: str, layer: int | None, head: int | None) -> Heatmaps:
    """One stage, large; above ``GRID`` tokens each cell is a block's number."""
    stage = trace.graph[key]
    parts = [f"{name} {n}" for name, n in (("Layer", layer), ("Head", head)) if n is not None]
    title = " · ".join((stage.label, *parts))
    panel = pool_panel(stage_panel(trace, trace.labels, key, layer, head, title), GRID)
    height = 540 if stage.of_head else min(_HIGH, max(_LOW, 120 + _ROW * len(panel.values)))
    numbers = NUMBERS_FIT_LARGE if stage.of_pairs else 0
    return Heatmaps(title, [panel], stage.scale, height=height, numbers=numbers, bar=panel.quantity)


#: The scale of differences between weights reaches at least this far.
LEAST_DIFFERENCE = 0.01


def difference(first: Panel, second: Panel, title: str) -> Panel:
    """second − first, cell by cell, as in all differences here; labelled like ``first``.

    A cell is masked only where both are: elsewhere 0 is a number.
    """
    masked: Pairs | None = None
    if first.masked is not None and second.masked is not None:
        masked = first.masked & second.masked
    values: Array = second.values - first.values
    weights = first.quantity.startswith("attention weight")
    return Panel(
        title=title,
        values=values,
        rows=first.rows,
        columns=first.columns,
        name="difference",
        quantity="difference of weights" if weights else f"difference: {first.quantity}",
        masked=masked,
        masked_text="masked in both",
        masked_name=first.masked_name,
        least=LEAST_DIFFERENCE,
    )


def difference_in_words(title: str, first: str, second: str) -> str:
    """Explain a ``difference``'s colours, in Markdown; ``first``, ``second`` name both."""
    return f"**{title}**: {UPPER} where {second} is larger, {LOWER} where {first} is."


@dataclass(frozen=True, eq=False)
class Measure:
    """One number for every query and key of every head of a layer: (nh, T, T).

    ``hidden`` (nh, T, T) are the cells without a number. The ``panel`` of a head has what all have
    in common: names, quantity and texts; and its ``head``, if each number is one head's, between
    two tokens.
    """

    values: Array
    hidden: Pairs
    panel: Panel
    scale: Scale = "unit"


def weights_measure(trace: Trace, labels: Sequence[str], layer: int) -> Measure:
    """The attention weights of a layer, as the run had them."""
    weights = trace.stage("weights", layer)[0]
    panel = stage_panel(trace, labels, "weights", layer, 0, "")
    hidden = np.broadcast_to(panel.hidden, weights.shape)  # no head has a mask of its own
    return Measure(weights, hidden, panel)


def word_measure(measure: Measure, trace: Trace) -> Measure:
    """A measure whose rows sum to 1, between words: (nh, T, T) -> (nh, W, W).

    Grouped as ``gpt2viz.group_words`` does. A cell is hidden if all its tokens' cells are.
    """
    starts = word_starts(trace.token_bytes, trace.tokens_are_words)
    ends = (*starts[1:], len(trace.token_bytes))
    hidden = np.logical_and.reduceat(measure.hidden, starts, axis=-1)
    words = [
        label(b"".join(trace.token_bytes[start:end]))
        for start, end in zip(starts, ends, strict=True)
    ]
    panel = replace(
        measure.panel,
        rows=Axis("query", words, starts),
        columns=Axis("key", words, starts),
        quantity=f"{measure.panel.quantity} between words",
        head=None,
    )
    return replace(
        measure,
        values=group_words(measure.values, starts),
        hidden=np.logical_and.reduceat(hidden, starts, axis=-2),
        panel=panel,
    )


def mean_of_heads(measure: Measure) -> Measure:
    """The mean of a layer's heads, as a measure of one head: (1, T, T)."""
    mean, panel = measure.values.mean(axis=0, keepdims=True), replace(measure.panel, head=None)
    return replace(measure, values=mean, hidden=measure.hidden[:1], panel=panel)


def one_head(measure: Measure, head: int, title: str, name: str) -> Panel:
    """One head's matrix (T, T), queries down and keys across. A click on it carries ``name``."""
    return replace(
        measure.panel,
        title=title,
        values=measure.values[head],
        name=name,
        masked=measure.hidden[head],
        head=measure.panel.head and measure.panel.head._replace(head=head),
    )
