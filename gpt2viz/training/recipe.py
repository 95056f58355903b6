"""What a training run does, from first to last step, as plain values.

A recipe and a corpus decide the weights: the batch of step s is a function of the seed and s
alone, so that a run cut off anywhere goes on with the same batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpt2viz.config import GPT2Config


@dataclass(frozen=True)
class Phase:
    """Steps that share one shape of batch.

    ``repeated`` is the share of a batch's rows that are random spans, said again and again (see
    ``gpt2viz.training.batches``); the other rows are text.
    """

    steps: int
    batch: int
    """B, rows."""
    length: int
    """T, tokens of a row."""
    repeated: float

    @property
    def tokens(self) -> int:
        """Tokens that one step reads: B T."""
        return self.batch * self.length


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights, beside the corpus."""

    vocab_size: int = 5120
    n_positions: int = 256
    n_embd: int = 192
    n_layer: int = 4
    n_head: int = 6
    phases: tuple[Phase, ...] = (
        Phase(steps=180, batch=32, length=32, repeated=1.0),
        Phase(steps=60, batch=16, length=64, repeated=1.0),
        Phase(steps=10000, batch=8, length=256, repeated=0.125),
    )
    """Short rows that can only be copied come first: copying from the context is learned there
    in a minute, and kept by a share of such rows to the end."""
    muon_lr: float = 0.015
    adam_lr: float = 5e-3
    weight_decay: float = 0.01
    warmup: int = 100
    """Steps in which the rates rise from 0; afterwards they fall along a cosine, to ``floor``."""
    floor: float = 0.02
    """The lowest rates, as a share of the highest."""
    slow_share: float = 0.02
    """The rate of what the head set at the start reads, as a share of ``adam_lr``."""
    points: tuple[int, ...] = (
        *(1, 30, 60, 90, 120, 150, 180, 210, 240, 300, 400),
        *(600, 1000, 1600, 2600, 4000, 5600, 7200, 8800, 10240),
    )
    """Steps after which every head is measured: closest where they change fastest."""
    seed: int = 20260101

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
        read = 0
        for phase in self.phases:
            done = min(step, phase.steps)
            read, step = read + done * phase.tokens, step - done
        return read

    def phase_at(self, step: int) -> Phase:
        """The phase that a step (0 to ``steps`` - 1) belongs to."""
        for phase in self.phases:
            if step < phase.steps:
                return phase
            step -= phase.steps
        raise IndexError("the run has fewer steps")

    def rate(self, step: int) -> float:
        """The learning rates at a step, as a share of the highest."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done))

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
