"""The fewest heads that keep an answer: all others become their means, one after the other.

Which part of a model is enough for what it does is the question of Conmy et al. 2023, "Towards
Automated Circuit Discovery for Mechanistic Interpretability", who cut edges by a threshold. Here
whole heads are given up, each time the one that is missed least, down to none: a curve of size
against faithfulness, and no threshold before it is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpt2viz.analysis.patching import AT_ONCE, Answer, Numbers, PairedRuns, paired_runs, stream
from gpt2viz.arrays import Array
from gpt2viz.errors import PatchError
from gpt2viz.labels import pluralize
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.forward import run_from
from gpt2viz.run.interventions import Change
from gpt2viz.run.means import Reference, check_reference, mean_output
from gpt2viz.run.stages import Stage, module_of

Head = tuple[int, int]


@dataclass(frozen=True, eq=False, repr=False)
class FewestHeads:
    """Heads in the order in which they were given up, and what of the answer was left each time.

    ``given_up`` are (layer, head), the least missed first. ``faithfulness`` (len(given_up) + 1,)
    begins with 1, that of the whole model; ``faithfulness[n]`` is without the first n of them: how
    far apart the two texts' logit differences of ``answer``, (right, wrong), still are, as a share
    of how far apart the whole model's are. ``n_heads`` is how many the model has.
    """

    answer: tuple[int, int]
    n_heads: int
    given_up: tuple[Head, ...]
    faithfulness: Numbers

    def keeping(self, share: float = 0.9) -> tuple[Head, ...] | None:
        """The fewest heads on the way that kept a ``share`` of the answer, in their order.

        Nor may they overshoot by more than is missing from 1: heads that only oppose the others
        are part of what keeps it. None while heads are left that nobody tried to do without.
        """
        if len(self.given_up) < self.n_heads:
            return None
        near = np.abs(self.faithfulness - 1) <= 1 - share + 1e-9
        return tuple(sorted(self.given_up[int(np.flatnonzero(near).max()) :]))

    def words(self, share: float = 0.9) -> str:
        """Name the heads that keep a ``share`` of the answer, in a sentence; "" before the end."""
        if (heads := self.keeping(share)) is None:
            return ""
        left = 100 * self.faithfulness[self.n_heads - len(heads)]
        this = f"{left:.0f} % of what tells both texts apart"
        if not heads:
            return f"Without any of its {self.n_heads} heads the model keeps {this}."
        few = f"{pluralize(len(heads), 'heads')} of {self.n_heads} keep{'s' * (len(heads) == 1)}"
        return f"{few} {this}: {', '.join(f'{layer}.{head}' for layer, head in heads)}."

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
    """Give up one head after the other, each time the one that is missed least.

    A head that is given up puts out its mean over both texts, position by position, or over those
    of a ``reference``; so it no longer tells them apart. Of all that are left, the next one to go
    is the one without which the faithfulness stays nearest to 1. That takes n (n + 1) runs of both
    texts for n heads, each from the head's layer on. ``progress`` is called after every batch with
    what was found so far and the share that is done; an exception that it raises ends the search.
    The other arguments are as for ``patch_sweep``.

    Raises ``PatchError`` for texts that differ in length or not at all, or that the model doesn't
    tell apart by these answers, and what ``trace`` raises.
    """
    runs = paired_runs(
        model, clean, corrupted, answer, "denoise", "logit difference", causal, (), None
    )
    circuit = _circuit(runs, reference)
    n_heads = model.config.n_layer * model.config.n_head
    given_up: list[Head] = []
    faithfulness, tried = [1.0], 0

    def tell(n: int) -> None:
        nonlocal tried
        tried += n
        if progress is not None:
            progress(result(), 2 * tried / (n_heads * (n_heads + 1)))

    def result() -> FewestHeads:
        return FewestHeads(runs.answer, n_heads, tuple(given_up), np.array(faithfulness))

    while len(given_up) < n_heads:
        head, share = circuit.least_missed(tell)
        circuit.gone[head] = True
        given_up.append(head)
        faithfulness.append(share)
    return result()


class _Circuit(NamedTuple):
    """Two runs in which the heads that are ``gone`` (n_layer, nh) put out their means.

    ``means`` is (nh, T, hs) a layer; ``whole`` is how far apart both runs are with all heads.
    """

    runs: PairedRuns
    means: Sequence[Tensor]
    gone: Tensor
    whole: float

    def least_missed(self, tell: Callable[[int], None]) -> tuple[Head, float]:
        """The head without which the faithfulness is nearest to 1, and that faithfulness.

        ``tell`` is called with the number of heads of each batch.
        """
        streams, faithfulness = self._streams(), dict[Head, float]()
        for layer, gone in enumerate(self.gone):
            left = [int(head) for head in torch.nonzero(~gone)]
            rows = max(1, AT_ONCE // (2 * streams[layer].shape[1]))
            for start in range(0, len(left), rows):
                some = left[start : start + rows]
                shares = self._without(layer, some, streams[layer])
                faithfulness |= zip(((layer, head) for head in some), shares, strict=True)
                tell(len(some))
        least = min(faithfulness, key=lambda head: abs(faithfulness[head] - 1))
        return least, faithfulness[least]

    @property
    def _graph(self) -> Mapping[str, Stage]:
        return self.runs.into.graph

    def _streams(self) -> list[Tensor]:
        """The streams of both texts before every layer: (2, T, C) each."""
        streams: list[Tensor] = []

        def listen(made: Tensor) -> Tensor:
            streams.append(made)
            return made

        layers = range(len(self.means))
        heard = [(module_of(self._graph, "residual_in", layer), listen) for layer in layers[1:]]
        device = self.gone.device
        first = torch.cat(
            [stream(run, 0, device) for run in (self.runs.clean, self.runs.corrupted)]
        )
        self._run(0, first, [*self._changes(layers), *heard])
        return [first, *streams]

    def _without(self, layer: int, heads: Sequence[int], streams: Tensor) -> list[float]:
        """The faithfulness where each of some heads of a layer is gone as well: one batch."""
        gone = self.gone[layer].repeat(len(heads), 1)  # (B, nh)
        gone[range(len(heads)), heads] = True
        both = gone.repeat_interleave(2, dim=0)  # (2B, nh): both texts of every head
        later = range(layer + 1, len(self.means))
        logits = self._run(
            layer,
            streams.repeat(len(heads), 1, 1),
            [self._change(layer, both), *self._changes(later)],
        )
        return [float(difference) for difference in apart(logits, self.runs.answer) / self.whole]

    def _run(self, layer: int, streams: Tensor, changes: Sequence[tuple[str, Change]]) -> Array:
        """The last logits (B, n_vocab) of runs that go on from streams before a layer."""
        into, model = self.runs.into, self.runs.model
        return run_from(model, layer, streams, changes, causal=into.causal, explicit=False)

    def _changes(self, layers: Sequence[int]) -> list[tuple[str, Change]]:
        return [self._change(n, self.gone[n][None]) for n in layers if self.gone[n].any()]

    def _change(self, layer: int, gone: Tensor) -> tuple[str, Change]:
        """Put means in the place of the heads that are ``gone``, (B, nh) or the same for all."""
        change = partial(_replaced, gone=gone, means=self.means[layer])
        return module_of(self._graph, "head_output", layer), change


def _replaced(made: Tensor, *, gone: Tensor, means: Tensor) -> Tensor:
    """Put the means (nh, T, hs) of heads that are ``gone`` into outputs (B, nh, T, hs)."""
    return torch.where(gone[:, :, None, None], means, made)


def _circuit(runs: PairedRuns, reference: Reference | None) -> _Circuit:
    """All heads, and the means that stand in for them. Raises ``PatchError`` for no difference."""
    model, both = runs.model, (runs.clean, runs.corrupted)
    whole = float(apart(np.stack([run.logits_at(-1) for run in both]), runs.answer)[0])
    if whole == 0:
        raise PatchError("Both runs give the same by these answers: name others.")
    if reference is not None:
        check_reference(reference, model)
    means, T = [], len(runs.clean.token_ids)
    for layer in range(model.config.n_layer):
        mean = np.mean([run.stage("head_output", layer)[0] for run in both], axis=0)
        if reference is not None:
            for head in range(len(mean)):
                mean[head] = mean_output(reference, layer, head, T)
        means.append(torch.from_numpy(mean).to(model.network.device))
    gone = torch.zeros(len(means), model.config.n_head, dtype=torch.bool, device=means[0].device)
    return _Circuit(runs, means, gone, whole)


def apart(logits: Array, answer: tuple[int, int]) -> Numbers:
    """The distance of pairs' logit differences: (2B, n_vocab) -> (B,), clean first."""
    right, wrong = answer
    difference = logits[:, right].astype(np.float64) - logits[:, wrong]
    return difference[::2] - difference[1::2]
