"""The four small models of "How it learns", trained in a thread: one training at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Semaphore
from typing import NamedTuple

import streamlit as st

from gpt2viz import Model
from gpt2viz.app.jobs import Job
from gpt2viz.model.tuning import threads
from gpt2viz.textbook import learning
from gpt2viz.textbook.learning import Point, Setting

#: The seeds that are offered: so many trainings, each kept for all visitors, are a server's most.
SEEDS = range(5)
#: Letters that each model writes in the end.
WRITTEN = 60

_TURN = Semaphore()


class Learned(NamedTuple):
    """A model's losses by now, its parameters, and what it wrote in the end."""

    points: tuple[Point, ...]
    n_parameters: int
    written: str = ""


@dataclass(eq=False)
class Training(Job):
    """Four models on their way, by name; those that come later aren't there yet."""

    seed: int
    size: Setting = field(default_factory=Setting)
    found: Mapping[str, Learned] = field(default_factory=dict)

    def work(self, model: Model) -> None:
        """Wait until no other training goes on, then train one model after the other."""
        while not _TURN.acquire(timeout=0.5):
            self.tell(0.0)
        try:
            self._train()
        finally:
            _TURN.release()

    def _train(self) -> None:
        text, size, found = learning.corpus(), self.size, dict[str, Learned]()
        small = {
            name: learning.build(name, len(text.letters), size, self.seed)
            for name in learning.PARTS
        }
        counts = {name: sum(p.numel() for p in one.parameters()) for name, one in small.items()}
        before = 0
        for name, one in small.items():
            points: list[Point] = []
            with threads(size.B * size.T * counts[name]):
                for point in learning.train(one, text, size, self.seed):
                    points.append(point)
                    self.found = found | {name: Learned(tuple(points), counts[name])}
                    # A step takes about as long as the model has parameters.
                    done = before + counts[name] * point.step / size.steps
                    self.tell(done / sum(counts.values()))
                written = learning.write(one, text.letters, size.T, WRITTEN, self.seed)
            found[name] = Learned(tuple(points), counts[name], written)
            before += counts[name]
        self.found = found


@st.cache_resource(max_entries=len(SEEDS), show_spinner=False)
def training(seed: int) -> Training:
    """The training of that seed, one for all visitors."""
    return Training(seed)
