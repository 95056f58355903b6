"""Path patching: a single path from head to head, copied from one run into another.

One receiver's q, k or v reads the sender's output from the other run; every part between them, and
everything that other parts read, is unchanged (Wang et al. 2022, "Interpretability in the Wild",
appendix B; Goldowsky-Dill et al. 2023, "Localizing Model Behavior with Path Patching").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from gpt2viz.analysis.circuits import Into
from gpt2viz.analysis.patching import (
    Answer,
    Direction,
    Metric,
    PairedRuns,
    paired_runs,
    put,
    share_restored,
    stream,
)
from gpt2viz.arrays import Numbers
from gpt2viz.errors import ArgumentError, EditError, PatchError
from gpt2viz.labels import head_of
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.edits import Edits, attention_is_off
from gpt2viz.run.means import Reference
from gpt2viz.run.stages import module_of

#: The inputs that a path can lead into, in the order of ``PathSweep.values``.
WAYS: tuple[Into, ...] = get_args(Into)


@dataclass(frozen=True, eq=False)
class PatchedPath:
    """The metric after one path was patched, and in the two unpatched runs."""

    value: float
    clean: float
    corrupted: float

    @property
    def restored(self) -> float:
        """The share of the way from the corrupted run to the clean one."""
        return share_restored(self.value, self.clean, self.corrupted)


@dataclass(frozen=True, eq=False, repr=False)
class PathSweep:
    """A metric after each path into one head was patched, and in the two unpatched runs.

    ``values`` is (3, layers before the receiver's, n_head): into its q, k and v, from every earlier
    head; NaN if not computed yet. The rest is as in ``PatchSweep``.
    """

    receiver: tuple[int, int]
    answer: tuple[int, int]
    direction: Direction
    metric: Metric
    values: Numbers
    clean: float
    corrupted: float

    @property
    def restored(self) -> Numbers:
        """The share of the way from the corrupted run, 0, to the clean one, 1."""
        return share_restored(self.values, self.clean, self.corrupted)

    def __repr__(self) -> str:
        layer, head = self.receiver
        return (
            f"PathSweep: {' × '.join(map(str, self.values.shape))} paths into q, k and v of head "
            f"{layer}.{head} ({self.direction}), {self.metric} {self.corrupted:.3f} corrupted, "
            f"{self.clean:.3f} clean"
        )


def patch_path(
    model: Model,
    clean: str | Sequence[int],
    corrupted: str | Sequence[int],
    sender: str | tuple[int, int],
    receiver: str | tuple[int, int],
    into: Into,
    answer: Answer | None = None,
    *,
    direction: Direction = "denoise",
    metric: Metric = "logit difference",
    causal: bool = True,
    edits: Edits = (),
    reference: Reference | None = None,
) -> PatchedPath:
    """Patch the direct path from a head's output to another head's q, k or v, at all positions.

    The ``sender`` is named as "8.6", the ``receiver`` as "9.9". The stream that the receiver's q, k
    or v reads changes by the difference of the sender's outputs in the two runs, and its norm's
    scale with it. Keys and values that a receiver shares with others change for all of them.

    Raises ``PatchError`` for a receiver that doesn't come after the sender, ``EditError`` for a
    head that doesn't exist, and what ``patch_sweep`` raises.
    """
    (first, writer), (second, reader) = (_head(model, named) for named in (sender, receiver))
    if second <= first:
        raise PatchError(f"head {second}.{reader} reads before head {first}.{writer} has written.")
    if into not in WAYS:
        raise ArgumentError(f"a path leads into q, k or v, not into {into!r}")
    runs = paired_runs(model, clean, corrupted, answer, direction, metric, causal, edits, reference)
    written = _output_difference(runs, first)[writer : writer + 1]  # (1, T, C)
    (value,) = _patch_receiver(_Receiver(runs, second, reader), into, written)
    return PatchedPath(float(value), *runs.alone)


def patch_paths(
    model: Model,
    clean: str | Sequence[int],
    corrupted: str | Sequence[int],
    receiver: str | tuple[int, int],
    answer: Answer | None = None,
    *,
    direction: Direction = "denoise",
    metric: Metric = "logit difference",
    causal: bool = True,
    edits: Edits = (),
    reference: Reference | None = None,
    progress: Callable[[PathSweep, float], object] | None = None,
) -> PathSweep:
    """``patch_path`` from every earlier head into the q, k and v of one head, in batches.

    ``progress`` is called after every layer of senders with the paths so far and the share that is
    done; an exception that it raises ends the sweep. The other arguments and errors are those of
    ``patch_path``; a ``receiver`` in layer 0 has no earlier heads, so no values.
    """
    layer, head = _head(model, receiver)
    runs = paired_runs(model, clean, corrupted, answer, direction, metric, causal, edits, reference)
    values = np.full((len(WAYS), layer, model.config.n_head), np.nan)
    to = _Receiver(runs, layer, head)
    for done, (first, way) in enumerate(product(range(layer), range(len(WAYS))), start=1):
        written = _output_difference(runs, first)
        values[way, first] = np.concatenate(
            [_patch_receiver(to, WAYS[way], some) for some in torch.split(written, runs.at_once)]
        )
        if progress is not None:
            progress(_sweep(to, values.copy()), done / (layer * len(WAYS)))
    return _sweep(to, values)


class _Receiver(NamedTuple):
    """The head that paths lead into, in the run that is patched."""

    runs: PairedRuns
    layer: int
    head: int


def _sweep(to: _Receiver, values: Numbers) -> PathSweep:
    runs = to.runs
    return PathSweep(to[1:], runs.answer, runs.direction, runs.metric, values, *runs.alone)


def _output_difference(runs: PairedRuns, layer: int) -> Tensor:
    """Every head's output to the stream in the other run, minus that in this one: (nh, T, C)."""
    outputs = [run.stage("head_output", layer)[0] for run in (runs.source, runs.into)]
    W_O, _ = runs.model.output_weights(layer)  # (nh, hs, C)
    with torch.inference_mode():
        written = torch.from_numpy(outputs[0] - outputs[1]).to(W_O.device) @ W_O
        return torch.zeros_like(written) if attention_is_off(runs.into.edits, layer) else written


def _patch_receiver(to: _Receiver, into: Into, written: Tensor) -> Numbers:
    """The metric (B,) if the receiver reads a stream with ``written`` (B, T, C) added."""
    runs, layer, head = to
    here = stream(runs.into, layer, written.device)  # (1, T, C)
    pieces = _project_streams(to, into, here + written)  # (B, T, hs)
    row = head if into == "q" else runs.model.config.group_of(head)
    change = partial(put, indices=[(n, row) for n in range(len(pieces))], pieces=[*pieces])
    streams = {layer: here.expand(len(pieces), -1, -1)}
    return runs.resume(streams, [(module_of(runs.into.graph, into, layer), change)], edited=False)


def _project_streams(to: _Receiver, into: Into, streams: Tensor) -> Tensor:
    """The receiver's q, k or v from streams (B, T, C) before its layer: (B, T, hs)."""
    block = to.runs.model.network.blocks[to.layer]
    W, b = block.attention.input_weights(into, to.head)
    with torch.inference_mode():
        # With ``forward``, which calls no hooks: a run in another thread may have hooked modules.
        read: Tensor = block.attention_norm.forward(streams) @ W + b
        if (norm := block.attention.head_norm(into)) is not None:
            read = norm.forward(read)
        positions = torch.arange(read.shape[1], device=read.device)
        return read if into == "v" else block.attention.rotate(read, positions)


def _head(model: Model, named: str | tuple[int, int]) -> tuple[int, int]:
    try:
        layer, head = head_of(named) if isinstance(named, str) else map(int, named)
    except ValueError:
        raise EditError(f"{named!r:.40} isn't a head; write one such as 1.3.") from None
    if not (0 <= layer < model.config.n_layer and 0 <= head < model.config.n_head):
        raise EditError(f"This model has no head {layer}.{head}.")
    return layer, head
