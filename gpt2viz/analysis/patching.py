"""What an answer depends on: a piece of one run put into another, over the whole model.

Two texts that differ in one thing are run; a piece of one run goes into the other, and the answer
shows how much of the difference comes along (Meng et al. 2022, "Locating and Editing Factual
Associations in GPT"; Wang et al. 2022, "Interpretability in the Wild"). Zhang & Nanda 2023,
"Towards Best Practices of Activation Patching", on the choices: the logit difference first, texts
of one length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpt2viz.analysis.paired_runs import (
    Answer,
    Direction,
    Metric,
    Numbers,
    PairedRuns,
    paired_runs,
    share_restored,
)
from gpt2viz.errors import StageError
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.edit_kinds import OF_HEADS, STREAMS
from gpt2viz.run.edits import Edits
from gpt2viz.run.forward import gradients
from gpt2viz.run.interventions import activation
from gpt2viz.run.means import Reference
from gpt2viz.run.stages import module_of
from gpt2viz.run.trace import Trace

#: Tokens that go through the model at once: more take memory and save no time.
AT_ONCE = 1024


@dataclass(frozen=True, eq=False, repr=False)
class PatchSweep:
    """What a metric is after each patch, beside the two runs as they are.

    ``values`` is (n_layer, T) for the stream before a layer ("residual_in") and for what
    "attention_output" and "mlp_output" add to it; (n_layer, n_head) for a head's "head_output",
    "q", "k", "v" or "weights" at all positions, and (n_layer, n_head, T) by position. NaN is not
    computed yet. ``clean`` and ``corrupted`` are the metric of the runs alone. The metric is the
    logit difference of ``answer``, (right, wrong), after the last token; or the probability of
    the right one; or the divergence from the clean run's prediction, in bits.

    ``direction`` "denoise" puts the clean piece into the corrupted run, which shows what is
    enough for the answer; "noise" the corrupted piece into the clean run, which shows what is
    needed (Heimersheim & Nanda 2024). An ``estimate`` is of first order and not a run.
    """

    stage: str
    answer: tuple[int, int]
    direction: Direction
    metric: Metric
    values: Numbers
    clean: float
    corrupted: float
    estimate: bool = False

    @property
    def restored(self) -> Numbers:
        """The share of the way from the corrupted run to the clean one: 0 there, 1 here."""
        return share_restored(self.values, self.clean, self.corrupted)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.values.shape))
        what = "estimates" if self.estimate else "patches"
        return (
            f"PatchSweep: {shape} {what} of {self.stage} ({self.direction}), {self.metric} "
            f"{self.corrupted:.3f} corrupted, {self.clean:.3f} clean"
        )


def patch_sweep(
    model: Model,
    clean: str | Sequence[int],
    corrupted: str | Sequence[int],
    stage: str = "residual_in",
    answer: Answer | None = None,
    *,
    direction: Direction = "denoise",
    metric: Metric = "logit difference",
    by_position: bool = False,
    causal: bool = True,
    edits: Edits = (),
    reference: Reference | None = None,
    progress: Callable[[PatchSweep, float], object] | None = None,
) -> PatchSweep:
    """Patch every piece of a stage, one at a time, from one text's run into the other's.

    ``answer`` is the right next token, or (right, wrong), each by its text, such as " fish", or its
    id; the runs' own answers where it is left out. ``by_position`` patches what a head has at one
    position, and not at all of them. ``causal``, ``edits`` and ``reference`` are as for ``trace``,
    for both runs. ``progress`` is called after every batch with the sweep so far and the share that
    is done; an exception that it raises ends the sweep.

    Raises ``PatchError`` for texts that differ in length or not at all, or without two answers,
    ``StageError`` for an unknown stage, ``ArgumentError`` for an unknown direction or metric, and
    what ``trace`` raises.
    """
    _check(stage)
    runs = paired_runs(model, clean, corrupted, answer, direction, metric, causal, edits, reference)
    cells = _cells(runs, stage, by_position)
    values = np.full(cells.shape, np.nan)
    for layer in range(model.config.n_layer):
        here = values[layer].reshape(-1)  # a view
        new, old = (activation(run, stage, layer) for run in (runs.source, runs.into))
        same = [np.array_equal(new[index], old[index]) for index in cells.indices]
        here[same] = runs.read(runs.into.logits_at(-1))  # as before the first token that differs
        others = np.flatnonzero(~np.array(same))
        rows = max(1, AT_ONCE // len(runs.into.token_ids))
        for start in range(0, len(others), rows):
            some = others[start : start + rows]
            here[some] = _patched(runs, stage, layer, [cells.indices[n] for n in some])
            if progress is not None:
                progress(_sweep(runs, stage, values.copy()), float(np.isfinite(values).mean()))
    return _sweep(runs, stage, values)


def patch_estimate(
    model: Model,
    clean: str | Sequence[int],
    corrupted: str | Sequence[int],
    stage: str = "residual_in",
    answer: Answer | None = None,
    *,
    direction: Direction = "denoise",
    by_position: bool = False,
    causal: bool = True,
    edits: Edits = (),
    reference: Reference | None = None,
) -> PatchSweep:
    """All logit differences of ``patch_sweep`` at once, to first order: attribution patching.

    (source − piece) · ∂metric/∂piece, from one backward pass of the run that is patched (Nanda
    2023, "Attribution Patching"). Wrong where the model is far from linear, as where a softmax
    saturates. Arguments and errors are those of ``patch_sweep``.
    """
    _check(stage)
    metric: Metric = "logit difference"
    runs = paired_runs(model, clean, corrupted, answer, direction, metric, causal, edits, reference)
    right, wrong = runs.answer
    slopes = gradients(
        model,
        runs.into.token_ids,
        [module_of(stage, layer) for layer in range(model.config.n_layer)],
        lambda logits: logits[0, right] - logits[0, wrong],
        wanted=runs.wanted,
        causal=causal,
        hidden=runs.into.forbidden,
    )
    changes_ = np.stack(
        [
            (activation(runs.source, stage, n) - activation(runs.into, stage, n)).astype(np.float64)
            * slope
            for n, slope in enumerate(slopes)
        ]
    )  # (n_layer, T, C) or (n_layer, nh, T, ·)
    added = changes_.sum(axis=-1)
    if stage in OF_HEADS and not by_position:
        added = added.sum(axis=-1)
    return _sweep(runs, stage, runs.read(runs.into.logits_at(-1)) + added, estimate=True)


def _sweep(runs: PairedRuns, stage: str, values: Numbers, estimate: bool = False) -> PatchSweep:
    """The sweep with those values, beside both runs alone."""
    one, other = (runs.read(run.logits_at(-1)) for run in (runs.clean, runs.corrupted))
    return PatchSweep(stage, runs.answer, runs.direction, runs.metric, values, one, other, estimate)


def _check(stage: str) -> None:
    if stage not in (known := STREAMS + OF_HEADS):
        raise StageError(f"no stage {stage!r} to patch; there are: {' '.join(known)}")


class _Cells(NamedTuple):
    """The shape of a sweep's values, and where the piece of each stands in every layer's stage."""

    shape: tuple[int, ...]
    indices: list[tuple[int | slice, ...]]


def _cells(runs: PairedRuns, stage: str, by_position: bool) -> _Cells:
    config, T = runs.model.config, len(runs.into.token_ids)
    if stage in STREAMS:
        return _Cells((config.n_layer, T), [(t,) for t in range(T)])
    heads = range(config.n_head)
    if by_position:
        return _Cells((config.n_layer, len(heads), T), [(h, t) for h in heads for t in range(T)])
    return _Cells((config.n_layer, len(heads)), [(h, slice(None)) for h in heads])


def _patched(
    runs: PairedRuns, stage: str, layer: int, indices: Sequence[tuple[int | slice, ...]]
) -> Numbers:
    """The metric after each of some patches of a layer: one batch."""
    streams = stream(runs.into, layer, runs.model.network.wte.weight.device)
    streams = streams.expand(len(indices), -1, -1)  # (B, T, C)
    source = torch.from_numpy(activation(runs.source, stage, layer)).to(streams.device)
    change = partial(
        put,
        indices=[(n, *index) for n, index in enumerate(indices)],
        pieces=[source[index] for index in indices],
    )
    if stage == "residual_in":
        return runs.on(layer, change(streams), [])
    return runs.on(layer, streams, [(module_of(stage, layer), change)])


def put(
    made: Tensor, *, indices: Sequence[tuple[int | slice, ...]], pieces: Sequence[Tensor]
) -> Tensor:
    """What a module made, with every piece at its index."""
    changed = made.clone()
    for index, new in zip(indices, pieces, strict=True):
        changed[index] = new
    return changed


def stream(run: Trace, layer: int, device: torch.device) -> Tensor:
    """The stream before a layer: (1, T, C)."""
    return torch.from_numpy(activation(run, "residual_in", layer)).to(device)[None]
