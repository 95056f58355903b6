"""Activation patching: a piece of one run put into another, over the whole model.

Two texts that differ in one thing are run; a piece of one run is put into the other, and the answer
shows how much of the difference it carries (Meng et al. 2022, "Locating and Editing Factual
Associations in GPT"; Wang et al. 2022, "Interpretability in the Wild"). The defaults follow Zhang &
Nanda 2023, "Towards Best Practices of Activation Patching": the logit difference, and texts of
equal length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpt2viz.analysis.sampling import divergence, sampling_distribution
from gpt2viz.arrays import Numbers
from gpt2viz.errors import ArgumentError, PatchError, PlaceError, StageError
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.network import Past
from gpt2viz.run.edit_kinds import OF_HEADS, STREAMS
from gpt2viz.run.edits import Edits, needs_means, read_edits
from gpt2viz.run.forward import gradients, run_from
from gpt2viz.run.interventions import Change, activation, changes
from gpt2viz.run.means import Reference
from gpt2viz.run.paired_texts import check_as_long
from gpt2viz.run.prefix import start_of
from gpt2viz.run.stages import module_of
from gpt2viz.run.trace import Trace
from gpt2viz.run.tracer import reference_run, token_id, token_ids, trace

N = TypeVar("N", float, Numbers)
Direction = Literal["denoise", "noise"]
#: One next token, or two, each by its id or its text.
Answer = int | str | Sequence[int | str]
Metric = Literal["logit difference", "probability", "divergence"]

#: Tokens that are run at once: more take memory and save no time.
AT_ONCE = 512


class PairedRuns(NamedTuple):
    """A clean and a corrupted run, and how a patched run is measured.

    ``answer`` is (right, wrong), ids of the vocabulary; ``changes`` are those that both runs'
    edits make, and ``past`` is the part of both before the first token that differs, as
    ``run_from`` takes them: empty where it can't be reused.
    """

    model: Model
    clean: Trace
    corrupted: Trace
    answer: tuple[int, int]
    direction: Direction
    metric: Metric
    changes: Sequence[tuple[str, Change]]
    past: Sequence[Past]

    @property
    def n_shared(self) -> int:
        """The number of first tokens that no patched run computes again."""
        return self.past[0].k.shape[2] if self.past else 0

    @property
    def at_once(self) -> int:
        """The number of runs in a batch."""
        T = len(self.into.token_ids)
        return max(1, AT_ONCE // max(T - self.n_shared, T // 8))  # all have the keys of T tokens

    @property
    def source(self) -> Trace:
        """The run that the piece is taken from."""
        return self.clean if self.direction == "denoise" else self.corrupted

    @property
    def into(self) -> Trace:
        """The run that it is put into."""
        return self.corrupted if self.direction == "denoise" else self.clean

    @property
    def alone(self) -> tuple[float, float]:
        """The metric of the clean and of the corrupted run, unpatched."""
        return self.measure(self.clean.logits_at(-1)), self.measure(self.corrupted.logits_at(-1))

    def measure(self, logits: NDArray[np.floating]) -> float:
        """The metric of logits (n_vocab,) after the last token."""
        return metric_value(logits, self.clean, self.answer, self.metric)

    def resume(
        self,
        streams: Mapping[int, Tensor],
        changes: Sequence[tuple[str, Change]],
        *,
        edited: bool = True,
    ) -> Numbers:
        """The metric (B,) of runs resumed from streams (b, T, C) before some layers.

        ``changes`` act after the runs' own edits, or before them if ``edited`` is False.
        """
        explicit = any(name.endswith(".weights") for name, _ in changes)
        own = [change for change in self.changes if _layer_of(change[0]) >= min(streams)]
        logits = run_from(
            self.model,
            {layer: x[:, self.n_shared :] for layer, x in streams.items()},
            [*own, *changes] if edited else [*changes, *own],
            causal=self.into.causal,
            explicit=explicit,
            hidden=self.into.forbidden,
            past=self.past,
        )
        return np.array([self.measure(row) for row in logits])


def share_restored(value: N, clean: float, corrupted: float) -> N:
    """The share of the way from the corrupted run's metric, 0, to the clean one's, 1."""
    return (value - corrupted) / (clean - corrupted)


def metric_value(
    logits: NDArray[np.floating], clean: Trace, answer: tuple[int, int], metric: Metric
) -> float:
    """The metric of logits (n_vocab,), by an ``answer`` (right, wrong) or the ``clean`` run.

    The logit of the right token minus that of the wrong one, the probability of the right one, or
    the divergence from the clean run's prediction in bits.
    """
    right, wrong = answer
    if metric == "divergence":
        return divergence(logits, clean.logits_at(-1))
    if metric == "probability":
        return float(sampling_distribution(logits)[right])
    return float(logits[right]) - float(logits[wrong])


def paired_runs(
    model: Model,
    clean: str | Sequence[int],
    corrupted: str | Sequence[int],
    answer: Answer | None,
    direction: Direction,
    metric: Metric,
    causal: bool,
    edits: Edits,
    reference: Reference | None,
) -> PairedRuns:
    """Run both texts, which must differ and have equally many tokens.

    Raises ``PatchError`` if they don't, if right and wrong answer are the same, or if both
    runs have the same metric; ``ArgumentError`` for an unknown direction or metric; and what
    ``trace`` raises.
    """
    for value, known in ((direction, Direction), (metric, Metric)):
        if value not in get_args(known):
            raise ArgumentError(f"{value!r} is none of: {', '.join(get_args(known))}")
    ids = [token_ids(model, text) for text in (clean, corrupted)]
    check_pair(model, *ids)
    edits = read_edits(edits)
    if reference is None and needs_means(edits):
        reference = reference_run(model)
    before, after = (trace(model, i, causal, edits=edits, reference=reference) for i in ids)
    tokens = _answer(model, before, after, answer)
    own = list(changes(edits, model, reference))
    start = None if edits or not causal else start_of(before, model, ids[1], causal, edits)
    past = start.past(model.network.device, explicit=True) if start else ()
    runs = PairedRuns(model, before, after, tokens, direction, metric, own, past)
    if len(set(runs.alone)) == 1:
        raise PatchError(
            f"Both runs have the same {metric}, so there is no difference to restore. Name other "
            "answers, or change the texts."
        )
    return runs


def check_pair(model: Model, clean: Sequence[int], corrupted: Sequence[int]) -> None:
    """Raise ``PatchError`` for texts that can't be patched: equal, or of different lengths."""
    if list(clean) == list(corrupted):
        raise PatchError("Both texts are the same: there is nothing to patch. Change one word.")
    check_as_long(model, clean, corrupted)


def _answer(model: Model, clean: Trace, corrupted: Trace, given: Answer | None) -> tuple[int, int]:
    """The right and the wrong next token; by default those of the runs."""
    own = [int(run.logits_at(-1).argmax()) for run in (clean, corrupted)]
    if given is None:
        given = ()
    named = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    try:
        ids = [token_id(model, token) for token in named]
    except PlaceError:
        ids = []
    if len(named) > 2 or len(ids) < len(named):
        raise PatchError(f"The answer is one or two tokens of the vocabulary, not {given!r:.40}.")
    right, wrong = [*ids, *own[len(ids) :]]
    if right == wrong:
        written = model.tokenizer.decode([right])
        raise PatchError(
            f"Right and wrong answer are both {written!r}, so nothing can tell the runs apart. "
            "Name two answers, or change the texts."
        )
    return right, wrong


def _layer_of(module: str) -> int:
    return int(module.split(".")[1])


@dataclass(frozen=True, eq=False, repr=False)
class PatchSweep:
    """A metric after each patch, and in the two unpatched runs.

    ``values`` is (n_layer, T) for the stream before a layer ("residual_in") and for what
    "attention_output" and "mlp_output" add to it; (n_layer, n_head) for a head's "head_output",
    "q", "k", "v" or "weights" at all positions, and (n_layer, n_head, T) by position. Heads that
    share keys and values have one patch of these, which changes their whole group. NaN is not
    computed yet. ``clean`` and ``corrupted`` are the unpatched runs' metric. The metric is the
    logit difference of ``answer``, (right, wrong), after the last token; or the probability of
    the right one; or the divergence from the clean run's prediction, in bits.

    ``direction`` "denoise" puts the clean piece into the corrupted run, which shows what is
    sufficient for the answer; "noise" the corrupted piece into the clean run, which shows what is
    necessary (Heimersheim & Nanda 2024). An ``estimate`` is first-order, not from patched runs.
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
        """The share of the way from the corrupted run, 0, to the clean one, 1."""
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
    id; by default the runs' own answers. ``by_position`` patches a head's piece at one position at
    a time, not at all of them. ``causal``, ``edits`` and ``reference`` are as for ``trace``,
    for both runs. ``progress`` is called after every batch with the sweep so far and the share that
    is done; an exception that it raises ends the sweep.

    Raises ``PatchError`` for texts that differ in length or not at all, without two answers, or
    whose runs have the same metric, ``StageError`` for an unknown stage, ``ArgumentError`` for an
    unknown direction or metric, and what ``trace`` raises.
    """
    _check(stage)
    runs = paired_runs(model, clean, corrupted, answer, direction, metric, causal, edits, reference)
    indices = _indices(runs, stage, by_position)
    n_layer, n_head = model.config.n_layer, model.config.n_head
    shape = (n_layer, n_head, -1) if by_position and stage in OF_HEADS else (n_layer, -1)
    values = np.full((n_layer, len(indices)), np.nan)
    patches = []
    for layer in range(n_layer):
        new, old = (activation(run, stage, layer) for run in (runs.source, runs.into))
        same = [np.array_equal(new[index], old[index]) for index in indices]
        values[layer, same] = runs.measure(runs.into.logits_at(-1))  # as before the texts differ
        patches += [(layer, int(n)) for n in np.flatnonzero(~np.array(same))]
    for start in range(0, len(patches), runs.at_once):
        some = patches[start : start + runs.at_once]
        patched = _patch(runs, stage, [(layer, indices[n]) for layer, n in some])
        values[tuple(np.transpose(some))] = patched
        if progress is not None:
            sweep = _sweep(runs, stage, values.reshape(shape).copy())
            progress(sweep, float(np.isfinite(values).mean()))
    return _sweep(runs, stage, values.reshape(shape))


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
    2023, "Attribution Patching"). Wrong where the model is far from linear, such as where a softmax
    saturates. Arguments and errors are those of ``patch_sweep``.
    """
    _check(stage)
    metric: Metric = "logit difference"
    runs = paired_runs(model, clean, corrupted, answer, direction, metric, causal, edits, reference)
    right, wrong = runs.answer
    slopes = gradients(
        model,
        runs.into.token_ids,
        [module_of(runs.into.graph, stage, layer) for layer in range(model.config.n_layer)],
        lambda logits: logits[0, right] - logits[0, wrong],
        changes=runs.changes,
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
    if stage in OF_HEADS:
        added = added[:, _rows(runs.into, stage)]
        added = added if by_position else added.sum(axis=-1)
    return _sweep(runs, stage, runs.measure(runs.into.logits_at(-1)) + added, estimate=True)


def _sweep(runs: PairedRuns, stage: str, values: Numbers, estimate: bool = False) -> PatchSweep:
    """The sweep with these values, and the metric of both unpatched runs."""
    measure = runs.direction, runs.metric
    return PatchSweep(stage, runs.answer, *measure, values, *runs.alone, estimate)


def _check(stage: str) -> None:
    if stage not in (known := STREAMS + OF_HEADS):
        raise StageError(f"no stage {stage!r} to patch; there are: {' '.join(known)}")


def _indices(runs: PairedRuns, stage: str, by_position: bool) -> list[tuple[int | slice, ...]]:
    """The indices of the pieces of every layer's stage that are patched one at a time."""
    positions = range(-len(runs.into.token_ids), 0)  # from the end, where fewer tokens run
    if stage in STREAMS:
        return [(t,) for t in positions]
    pieces = positions if by_position else [slice(None)]
    return [(h, piece) for h in _rows(runs.into, stage) for piece in pieces]


def _rows(run: Trace, stage: str) -> list[int]:
    """The row of a stage of heads that each head reads: its own, or its group's."""
    config, shared = run.config, run.graph[stage].of_group
    return [config.group_of(head) if shared else head for head in range(config.n_head)]


def _patch(
    runs: PairedRuns, stage: str, patches: Sequence[tuple[int, tuple[int | slice, ...]]]
) -> Numbers:
    """The metric after each of some patches, by their layers and indices: one batch."""
    streams: dict[int, Tensor] = {}
    changes: list[tuple[str, Change]] = []
    for layer, group in groupby(enumerate(patches), key=lambda patch: patch[1][0]):
        rows, indices = zip(*((row, index) for row, (_, index) in group), strict=True)
        here = stream(runs.into, layer, runs.model.network.device)
        source = torch.from_numpy(activation(runs.source, stage, layer)).to(here.device)
        pieces = [source[index] for index in indices]
        streams[layer] = here.expand(len(rows), -1, -1)  # (b, T, C)
        if stage == "residual_in":
            own = [(n, *index) for n, index in enumerate(indices)]
            streams[layer] = put(streams[layer], indices=own, pieces=pieces)
        else:
            own = [(row, *index) for row, index in zip(rows, indices, strict=True)]
            change = partial(put, indices=own, pieces=pieces)
            changes.append((module_of(runs.into.graph, stage, layer), change))
    return runs.resume(streams, changes)


def put(
    made: Tensor, *, indices: Sequence[tuple[int | slice, ...]], pieces: Sequence[Tensor]
) -> Tensor:
    """Write every piece at its index into a module's output; of a longer piece its last tokens."""
    changed = made.clone()
    for index, new in zip(indices, pieces, strict=True):
        changed[index] = new[-len(changed[index]) :]
    return changed


def stream(run: Trace, layer: int, device: torch.device) -> Tensor:
    """The stream before a layer: (1, T, C)."""
    return torch.from_numpy(activation(run, "residual_in", layer)).to(device)[None]
