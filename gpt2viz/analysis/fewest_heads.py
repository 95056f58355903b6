"""The fewest heads that keep an answer: all others are replaced by their means, one by one.

Conmy et al. 2023, "Towards Automated Circuit Discovery for Mechanistic Interpretability", ask
which part of a model is enough for what it does, and cut edges by a threshold. Here whole heads
are removed, each time the one that matters least, until none is left: a curve of size against
faithfulness, which needs no threshold in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpt2viz.analysis.patching import Answer, PairedRuns, paired_runs, stream
from gpt2viz.analysis.restored import piece_masks
from gpt2viz.arrays import Array, Numbers
from gpt2viz.errors import ArgumentError
from gpt2viz.labels import sentence
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.forward import run_from
from gpt2viz.run.interventions import Change
from gpt2viz.run.means import Reference, check_reference, mean_output
from gpt2viz.run.stages import module_of

Head = tuple[int, int]
#: Of the heads left, one in so many is removed before all others are tried again.
_SHARE = 32


@dataclass(frozen=True, eq=False, repr=False)
class FewestHeads:
    """Heads in the order in which they were removed, and the faithfulness after each.

    ``given_up`` are the removed heads, (layer, head). ``faithfulness`` (len(given_up) + 1,)
    begins with 1, that of the whole model; ``faithfulness[n]`` is without the first n of them: how
    far apart the two texts' logit differences of ``answer``, (right, wrong), still are, as a share
    of how far apart the whole model's are. ``n_heads`` is how many the model has.
    """

    answer: tuple[int, int]
    n_heads: int
    given_up: tuple[Head, ...]
    faithfulness: Numbers

    def keeping(self, share: float = 0.9) -> tuple[Head, ...] | None:
        """The fewest heads on the way that kept a ``share`` of the answer, in the model's order.

        Their faithfulness may exceed 1 by no more than it may fall below: heads that only oppose
        others also count. None while the search isn't finished. Raises ``ArgumentError``.
        """
        if not 0 <= share <= 1:
            raise ArgumentError(f"A share is from 0 to 1, not {share!r:.40}.")
        if len(self.given_up) < self.n_heads:
            return None
        near = np.abs(self.faithfulness - 1) <= 1 - share + 1e-9
        return tuple(sorted(self.given_up[int(np.flatnonzero(near).max()) :]))

    def words(self, share: float = 0.9) -> str:
        """Name the heads that keep a ``share`` of the answer, in a sentence; "" before the end."""
        if (heads := self.keeping(share)) is None:
            return ""
        return sentence(
            ("fewest.none", "fewest.one", "fewest.some")[min(len(heads), 2)],
            kept=100 * self.faithfulness[self.n_heads - len(heads)],
            heads=", ".join(f"{layer}.{head}" for layer, head in heads),
            few=len(heads),
            all=self.n_heads,
        )

    def __repr__(self) -> str:
        heads = self.keeping()
        result = "not at its end" if heads is None else f"{len(heads)} keep 90 % of the answer"
        return f"FewestHeads: {len(self.given_up)} of {self.n_heads} heads given up, {result}"


def fewest_heads(
    model: Model,
    clean: str | Sequence[int],
    corrupted: str | Sequence[int],
    answer: Answer | None = None,
    *,
    causal: bool = True,
    reference: Reference | None = None,
    progress: Callable[[FewestHeads, float], object] | None = None,
) -> FewestHeads:
    """Remove one head after the other, each time the one that matters least.

    A removed head outputs its mean over both texts, position by position, or over those
    of a ``reference``; so it no longer distinguishes them. The next one removed is that without
    which the faithfulness stays nearest to 1. While more than 63 are left, a thirty-second of them
    is removed before the others are tried again, as if effects were additive; ``faithfulness`` is
    always measured by runs. ``tries`` is how many circuits are run, on both texts, each from the
    first layer that lacks another head. ``progress`` is called after every batch with the result so
    far and the share that is done; an exception that it raises ends the search. The other arguments
    are as for ``patch_sweep``.

    Raises ``PatchError`` for texts that differ in length or not at all, or whose runs have the same
    difference of these answers, and what ``trace`` raises.
    """
    runs = paired_runs(
        model, clean, corrupted, answer, "denoise", "logit difference", causal, (), None
    )
    circuit = _circuit(runs, reference)
    n_heads = model.config.n_layer * model.config.n_head
    given_up: list[Head] = []
    faithfulness, n_tried, n_tries = [1.0], 0, tries(n_heads)

    def report(n: int) -> None:
        nonlocal n_tried
        n_tried += n
        if progress is not None:
            progress(result(), n_tried / n_tries)

    def result() -> FewestHeads:
        return FewestHeads(runs.answer, n_heads, tuple(given_up), np.array(faithfulness))

    for _, n in _rounds(n_heads):
        heads, shares = circuit.give_up(n, faithfulness[-1], report)
        given_up += heads
        faithfulness += shares
    return result()


def tries(n_heads: int) -> int:
    """The number of circuits that a search among so many heads runs, each on both texts."""
    return sum(left + n - 1 for left, n in _rounds(n_heads))


def _rounds(n_heads: int) -> Iterator[tuple[int, int]]:
    """Yield the number of heads left before each round, and how many it removes."""
    while n_heads:
        n = max(1, n_heads // _SHARE)
        yield n_heads, n
        n_heads -= n


def _next_heads(alone: Numbers, now: float, n: int) -> list[int]:
    """The next n heads to remove, by faithfulness ``alone`` (B,) without each, as if additive."""
    chosen: list[int] = []
    for _ in range(n):
        missed = np.abs(alone + (alone - now)[chosen].sum() - 1)
        missed[chosen] = np.inf
        chosen.append(int(missed.argmin()))
    return chosen


class _Circuit(NamedTuple):
    """Two runs in which the heads that are ``gone`` (n_layer, nh) output their means.

    ``means`` is (nh, T, hs) per layer; ``whole`` is how far apart both runs are with all heads.
    """

    runs: PairedRuns
    means: Sequence[Tensor]
    gone: Tensor
    whole: float

    def give_up(
        self, n: int, now: float, report: Callable[[int], None]
    ) -> tuple[list[Head], list[float]]:
        """Remove the n heads that matter least: their list, and the faithfulness after each.

        ``now`` is the faithfulness before; ``report`` is as for ``faithfulness``.
        """
        left, streams = [*map(tuple, torch.nonzero(~self.gone).tolist())], self.streams()
        alone = self.faithfulness(piece_masks(self.gone, left), streams, report)  # (B,)
        least = _next_heads(alone, now, n)
        heads = [left[i] for i in least]
        together = piece_masks(self.gone, heads).cumsum(0).bool()
        shares = [alone[least[0]], *self.faithfulness(together[1:], streams, report)]
        self.gone[:] = together[-1]
        return heads, [*map(float, shares)]

    def faithfulness(
        self, gone: Tensor, streams: Sequence[Tensor], report: Callable[[int], None]
    ) -> Numbers:
        """The faithfulness (B,) of circuits that lack more heads: those ``gone`` in each.

        ``gone`` is (B, n_layer, nh), and ``streams`` are this circuit's. ``report`` is called with
        the number of circuits of each batch.
        """
        first = (gone != self.gone).any(dim=2).int().argmax(dim=1)  # the layer that differs (B,)
        order, faithfulness = first.argsort(stable=True), np.empty(len(gone))
        step = max(1, self.runs.at_once // 2)
        for start in range(0, len(order), step):
            rows = order[start : start + step]
            faithfulness[rows.tolist()] = self._batch(gone[rows], first[rows], streams)
            report(len(rows))
        return faithfulness

    def streams(self) -> list[Tensor]:
        """The streams of both texts before every layer: (2, T, C) each."""
        streams: list[Tensor] = []

        def listen(made: Tensor) -> Tensor:
            streams.append(made)
            return made

        layers = range(len(self.means))
        graph = self.runs.into.graph
        recorders = [(module_of(graph, "residual_in", layer), listen) for layer in layers[1:]]
        device = self.gone.device
        first = torch.cat(
            [stream(run, 0, device) for run in (self.runs.clean, self.runs.corrupted)]
        )[:, self.runs.n_shared :]
        without = [self._change(n, self.gone[n][None]) for n in layers if self.gone[n].any()]
        self._run({0: first}, [*without, *recorders])
        return [first, *streams]

    def _batch(self, gone: Tensor, first: Tensor, streams: Sequence[Tensor]) -> Numbers:
        """The faithfulness (B,) of circuits in the order of their first layers (B,)."""
        joining, changes = dict[int, Tensor](), []
        for layer in range(int(first[0]), len(self.means)):
            if n := int((first == layer).sum()):
                joining[layer] = streams[layer].repeat(n, 1, 1)  # (2n, T, C)
            running = gone[first <= layer, layer].repeat_interleave(2, dim=0)  # (2b, nh)
            changes.append(self._change(layer, running))
        return logit_gap(self._run(joining, changes), self.runs.answer) / self.whole

    def _run(self, streams: Mapping[int, Tensor], changes: Sequence[tuple[str, Change]]) -> Array:
        """The last logits (B, n_vocab) of runs resumed from streams before layers."""
        runs, causal = self.runs, self.runs.into.causal
        return run_from(runs.model, streams, changes, causal=causal, explicit=False, past=runs.past)

    def _change(self, layer: int, gone: Tensor) -> tuple[str, Change]:
        """Replace the heads that are ``gone``, (B, nh) or the same for all, by their means."""
        module, means = module_of(self.runs.into.graph, "head_output", layer), self.means[layer]
        return module, lambda made: torch.where(gone[:, :, None, None], means, made)


def _circuit(runs: PairedRuns, reference: Reference | None) -> _Circuit:
    """All heads, and the means that replace them."""
    model, both = runs.model, (runs.clean, runs.corrupted)
    whole = float(logit_gap(np.stack([run.logits_at(-1) for run in both]), runs.answer)[0])
    if reference is not None:
        check_reference(reference, model)
        runs = runs._replace(past=())  # its means change every token
    means, T = [], len(runs.clean.token_ids)
    for layer in range(model.config.n_layer):
        mean = np.mean([run.stage("head_output", layer)[0] for run in both], axis=0)
        if reference is not None:
            for head in range(len(mean)):
                mean[head] = mean_output(reference, layer, head, T)
        means.append(torch.from_numpy(mean[:, runs.n_shared :]).to(model.network.device))
    gone = torch.zeros(len(means), model.config.n_head, dtype=torch.bool, device=means[0].device)
    return _Circuit(runs, means, gone, whole)


def logit_gap(logits: Array, answer: tuple[int, int]) -> Numbers:
    """The distance of pairs' logit differences: (2B, n_vocab) -> (B,), clean first."""
    right, wrong = answer
    difference = logits[:, right].astype(np.float64) - logits[:, wrong]
    return difference[::2] - difference[1::2]
