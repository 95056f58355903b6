"""A training run from first to last step, as plain values.

A recipe and a corpus determine the weights: the batch of step s depends only on the seed and s,
so an interrupted run resumes with the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpt2viz.model.config import GPT2Config


@dataclass(frozen=True)
class Phase:
    """Steps with the same batch shape.

    ``repeated`` is the share of a batch's rows that are repeated random spans (see
    ``gpt2viz.training.batches``); the others are text, ``own`` of them from the corpus with a
    held-out part, the rest from the further books.
    """

    steps: int
    batch: int
    """B, rows."""
    length: int
    """T, tokens of a row."""
    repeated: float
    own: float = 1.0
    last_rate: float = 1.0
    """The learning rates at the phase's end, as a share of the highest: the rates change
    linearly to it, from those of the previous phase."""

    @property
    def tokens(self) -> int:
        """Tokens in one step: B · T."""
        return self.batch * self.length

    @property
    def repeated_rows(self) -> int:
        """The number of rows of a batch that are random spans: its last ones."""
        return round(self.batch * self.repeated)


@dataclass(frozen=True)
class Nudge:
    """An extra loss on one head, only for some steps.

    ``toward`` is a score of ``gpt2viz.analysis.scores``; the loss is ``weight`` times the mean of
    −ln (the head's attention weight on that habit's targets).
    """

    layer: int
    head: int
    toward: str
    steps: int
    weight: float = 0.3
    start: int = 0
    """The step that it begins at."""

    def is_active(self, step: int) -> bool:
        """True where the loss is added at a step (from 0)."""
        return self.start <= step < self.start + self.steps


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the weights, except the corpus.

    The learning rates rise in a warm-up, stay constant, and fall in the third phase (Hu et al.
    2024, "MiniCPM", section 4), so the constant part may be of any length. Then they rise once
    more, to less than a third of the maximum, and fall again.
    """

    vocab_size: int = 5120
    n_positions: int = 256
    n_embd: int = 256
    n_layer: int = 4
    n_head: int = 8
    phases: tuple[Phase, ...] = (
        Phase(steps=1500, batch=32, length=64, repeated=0.2, own=0.5),
        Phase(steps=8000, batch=16, length=256, repeated=0.0625, own=0.4),
        Phase(steps=7000, batch=16, length=256, repeated=0.0625, own=0.6, last_rate=0.02),
        Phase(steps=25, batch=8, length=256, repeated=0.125, own=0.6, last_rate=0.3),
        Phase(steps=575, batch=8, length=256, repeated=0.125, own=0.6, last_rate=0.01),
    )
    """Short rows come first: on them the model learns to copy from the context soonest. The last
    two let one head learn to rest on the first token: see ``nudges``."""
    nudges: tuple[Nudge, ...] = (
        Nudge(layer=0, head=0, toward="previous token", steps=150),
        Nudge(layer=0, head=1, toward="duplicate token", steps=300),
        Nudge(layer=1, head=7, toward="first token", steps=1000),
        Nudge(layer=2, head=7, toward="first token", steps=1000),
        Nudge(layer=2, head=7, toward="first token", steps=75, weight=1.0, start=16_500),
    )
    """None of the heads nudged toward the first token at the start still rested there at step
    2,000, when rows had grown to whole contexts. 2.7 had no other use by step 16,500: replacing
    its output by the mean raised the loss by 0.001 nats per token. So it was nudged once
    more, at rates of less than a third."""
    alike: float = 1.0
    """Weight of the loss on heads that do the same (see ``gpt2viz.training.pressure``)."""
    muon_lr: float = 4e-3
    adam_lr: float = 2e-3
    weight_decay: float = 0.1
    """Of the blocks' matrices."""
    warmup: int = 200
    """Steps in which the rates rise from 0."""
    milestone: int = 500
    """After so many steps the weights are rounded to float16, as they would be shipped, and the
    optimizers are reset: such a milestone is all that another machine needs to resume."""
    rewarm: int = 25
    """Steps in which the rates rise again after a milestone."""
    points: tuple[int, ...] = (
        *(1, 50, 100, 150, 200, 300, 400, 500, 600, 700, 800, 1000, 1250, 1500, 2000, 2800),
        *(4000, 5600, 7200, 8800, 9500, 10400, 12000, 13600, 15200, 16500),
        *(16575, 16700, 16850, 17100),
    )
    """Steps after which every head is measured: densest where heads change fastest."""
    seed: int = 20261122

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)

    @property
    def tokens(self) -> int:
        """Tokens that the whole run reads."""
        return sum(phase.steps * phase.tokens for phase in self.phases)

    def tokens_until(self, step: int) -> int:
        """Tokens read in the first ``step`` steps."""
        return sum(done * phase.tokens for phase, done in self.phases_until(step))

    def phases_until(self, step: int) -> Iterator[tuple[Phase, int]]:
        """Each phase that began before a step, and how many of its steps are done by then."""
        for phase in self.phases:
            if step > 0:
                yield phase, min(step, phase.steps)
            step -= phase.steps

    def phase_at(self, step: int) -> Phase:
        """The phase that a step (0 to ``steps`` - 1) belongs to."""
        for phase in self.phases:
            if step < phase.steps:
                return phase
            step -= phase.steps
        raise IndexError("the run has fewer steps")

    def rate(self, step: int) -> float:
        """The learning rates at a step, as a share of the maximum."""
        rising = min(1.0, (step + 1) / self.warmup)
        if step >= self.milestone:
            rising = min(rising, (step % self.milestone + 1) / self.rewarm)
        before, done = 1.0, step
        for phase in self.phases:
            if done < phase.steps:
                return rising * (before + (phase.last_rate - before) * done / phase.steps)
            before, done = phase.last_rate, done - phase.steps
        return before

    def resumes(self, stored: dict[str, Any], step: int) -> bool:
        """True where a run of the recipe ``stored`` (as ``asdict`` gives it) was the same up to
        ``step``: then this recipe can resume it, whatever comes later.
        """
        theirs = dict(stored)
        try:
            phases = tuple(Phase(**phase) for phase in theirs.pop("phases"))
            nudges = tuple(Nudge(**nudge) for nudge in theirs.pop("nudges"))
            other = Recipe(**{**theirs, "phases": phases, "nudges": nudges})
        except (KeyError, TypeError):
            return False
        same = self == replace(other, phases=self.phases, nudges=self.nudges, points=self.points)
        began = [[n for n in recipe.nudges if n.start < step] for recipe in (self, other)]
        return same and began[0] == began[1] and self._plan(step) == other._plan(step)

    def _plan(self, step: int) -> list[tuple[int, Phase]]:
        """The steps of each phase done by ``step``; at a constant rate nothing else matters."""
        plan, before = [], 1.0
        for phase, done in self.phases_until(step):
            even = phase.last_rate == before
            plan.append((done, replace(phase, steps=0 if even else phase.steps)))
            before = phase.last_rate
        return plan

    def config(self) -> GPT2Config:
        """GPT-2's architecture at this recipe's sizes. No dropout: no batch is seen twice."""
        return GPT2Config(
            vocab_size=self.vocab_size,
            n_positions=self.n_positions,
            n_embd=self.n_embd,
            n_layer=self.n_layer,
            n_head=self.n_head,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            resid_pdrop=0.0,
        )
