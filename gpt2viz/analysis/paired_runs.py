"""Two runs of texts that differ in one thing, and how the answer to a change is read from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gpt2viz.analysis.sampling import divergence, sampling_distribution
from gpt2viz.errors import ArgumentError, PatchError, PlaceError
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.edits import Edits, read_edits, take_mean
from gpt2viz.run.forward import run_from
from gpt2viz.run.interventions import Change, changes
from gpt2viz.run.means import Reference
from gpt2viz.run.pieces import check_as_long
from gpt2viz.run.trace import Trace
from gpt2viz.run.tracer import reference_run, token_id, token_ids, trace

Numbers = NDArray[np.float64]
N = TypeVar("N", float, NDArray[np.float64])
Direction = Literal["denoise", "noise"]
#: One next token, or two: each by its id or its text.
Answer = int | str | Sequence[int | str]
Metric = Literal["logit difference", "probability", "divergence"]


class PairedRuns(NamedTuple):
    """A clean and a corrupted run, and how the answer to a patch is read.

    ``answer`` is (right, wrong), ids of the vocabulary; ``wanted`` are the changes that both runs'
    edits make, as ``run_from`` takes them.
    """

    model: Model
    clean: Trace
    corrupted: Trace
    answer: tuple[int, int]
    direction: Direction
    metric: Metric
    wanted: Sequence[tuple[str, Change]]

    @property
    def source(self) -> Trace:
        """The run that the piece is taken from."""
        return self.clean if self.direction == "denoise" else self.corrupted

    @property
    def into(self) -> Trace:
        """The run that it is put into."""
        return self.corrupted if self.direction == "denoise" else self.clean

    def read(self, logits: NDArray[np.floating]) -> float:
        """The metric of logits (n_vocab,) after the last token."""
        return measured(logits, self.clean, self.answer, self.metric)

    def on(
        self,
        layer: int,
        streams: Tensor,
        wanted: Sequence[tuple[str, Change]],
        *,
        edited: bool = True,
    ) -> Numbers:
        """The metric (B,) of runs that go on from streams (B, T, C) before a layer.

        What is ``wanted`` there stands in for what the runs' edits had made of it; or, where it
        isn't ``edited``, for what these act on.
        """
        explicit = any(name.endswith(".weights") for name, _ in wanted)
        own = [one for one in self.wanted if _layer_of(one[0]) >= layer]
        logits = run_from(
            self.model,
            layer,
            streams,
            [*own, *wanted] if edited else [*wanted, *own],
            causal=self.into.causal,
            explicit=explicit,
            hidden=self.into.forbidden,
        )
        return np.array([self.read(one) for one in logits])


def share_restored(value: N, clean: float, corrupted: float) -> N:
    """The share of the way from the corrupted run's metric, 0, to the clean one's, 1."""
    return (value - corrupted) / (clean - corrupted)


def measured(
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
    """Run both texts, which must differ and have as many tokens.

    Raises ``PatchError`` where they don't, or where right and wrong answer are one;
    ``ArgumentError`` for an unknown direction or metric; and what ``trace`` raises.
    """
    for value, known in ((direction, Direction), (metric, Metric)):
        if value not in get_args(known):
            raise ArgumentError(f"{value!r} is none of: {', '.join(get_args(known))}")
    ids = [token_ids(model, text) for text in (clean, corrupted)]
    check_pair(model, *ids)
    edits = read_edits(edits)
    if reference is None and take_mean(edits):
        reference = reference_run(model)
    one, other = (trace(model, i, causal, edits=edits, reference=reference) for i in ids)
    wanted = list(changes(edits, reference))
    return PairedRuns(
        model, one, other, _answer(model, one, other, answer), direction, metric, wanted
    )


def check_pair(model: Model, clean: Sequence[int], corrupted: Sequence[int]) -> None:
    """Raise ``PatchError`` for ids that can't be patched between: the same, or not as many."""
    if list(clean) == list(corrupted):
        raise PatchError("Both texts are the same: there is nothing to patch. Change one word.")
    check_as_long(model, clean, corrupted)


def _answer(model: Model, clean: Trace, corrupted: Trace, asked: Answer | None) -> tuple[int, int]:
    """The right and the wrong next token; those of the runs where they aren't asked for."""
    own = [int(run.logits_at(-1).argmax()) for run in (clean, corrupted)]
    if asked is None:
        asked = ()
    given = [asked] if isinstance(asked, str) or not isinstance(asked, Iterable) else list(asked)
    try:
        ids = [token_id(model, one) for one in given]
    except PlaceError:
        ids = []
    if len(given) > 2 or len(ids) < len(given):
        raise PatchError(f"The answer is one or two tokens of the vocabulary, not {asked!r:.40}.")
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
