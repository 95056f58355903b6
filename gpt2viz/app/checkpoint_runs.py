"""Summaries of a sentence's runs at a model's training checkpoints, shared by all visitors.

Each checkpoint of ``gpt2viz.load_steps`` is loaded and run once for a sentence; only the numbers
that the page shows are cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

import numpy as np
import streamlit as st

import gpt2viz
from gpt2viz.analysis.batch_scores import Measured, measure_probe
from gpt2viz.analysis.lens import LogitLens, logit_lens
from gpt2viz.analysis.sampling import surprise
from gpt2viz.anatomy.training_record import read_record
from gpt2viz.app import run_cache, server_config
from gpt2viz.app.run_cache import ByteLRUCache
from gpt2viz.arrays import Array, largest
from gpt2viz.model import preload
from gpt2viz.pictures.pooling import thumbnails
from gpt2viz.run.key import RunKey
from gpt2viz.run.trace import Trace

#: How many next tokens are cached.
TOP = 5
#: Seconds of running checkpoints after which a page is drawn; reruns of it get the others.
PATIENCE = 1.5


@dataclass(frozen=True, eq=False)
class CheckpointRun:
    """A run at one checkpoint: ``tiles`` (n_layer, nh, side, side) of its weights, pooled if long.

    ``following`` are the ids of the most probable next tokens with their probabilities, ``loss``
    the mean of −ln p, in nats, of every token but the first; NaN for a single one. ``lens`` is the
    logit lens at the last token.
    """

    tiles: Array
    following: tuple[tuple[int, float], ...]
    loss: float
    lens: LogitLens

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers."""
        return int(self.tiles.nbytes)


@st.cache_resource(max_entries=8, ttl=60, show_spinner=False)
def steps(model_name: str) -> gpt2viz.Steps:
    """Return the checkpoints beside a model's weights. Raises ``CheckpointError``."""
    folder = run_cache.model_folders()[model_name]
    return gpt2viz.load_steps(folder, model_name, server_config.device())


@st.cache_resource(max_entries=8, ttl=60, show_spinner=False)
def tokens_read(model_name: str) -> Mapping[int, int]:
    """Return how many tokens the model had read by each step that a record lists."""
    config = run_cache.load(model_name).config
    folder = run_cache.model_folders()[model_name]
    tokens: dict[int, int] = {}
    for source in (folder, folder / "steps"):
        try:
            record = read_record(source, config.n_layer, config.n_head)
        except gpt2viz.CheckpointError:
            continue
        if record is not None:
            tokens |= dict(zip(record.steps, map(int, record.tokens), strict=False))
    return tokens


def _summary(trace: Trace, lens: LogitLens) -> CheckpointRun:
    """Return the numbers of a run that are cached."""
    weights = (trace.stage("weights", n)[0] for n in range(trace.config.n_layer))
    probable = trace.next_token_probabilities[0]
    best = largest(probable, TOP)
    bits = surprise(trace)[1:]
    return CheckpointRun(
        thumbnails(weights),
        tuple((int(n), float(probable[n])) for n in best),
        float(bits.mean() * np.log(2)) if len(bits) else float("nan"),
        lens,
    )


def final(key: RunKey) -> CheckpointRun:
    """Return the run of the finished model."""
    return _summary(run_cache.run(key), _final_lens(key))


def run_at(key: RunKey, step: int) -> CheckpointRun:
    """Return the run of a step's checkpoint on the text of ``key``. Raises ``CheckpointError``.

    Its lens follows the finished model's answer.
    """

    def make() -> CheckpointRun:
        end, model = _final_lens(key), model_at(key.model, step)
        trace = gpt2viz.trace(model, key.token_ids, causal=key.causal)
        return _summary(trace, logit_lens(model, trace, end.positions, end.answer.tolist()))

    return _runs().get((key, step), make)


def _final_lens(key: RunKey) -> LogitLens:
    return run_cache.lens(key, (len(key.token_ids) - 1,))


def runs_by_step(key: RunKey, nearest: int) -> dict[int, CheckpointRun]:
    """Run a text by step: ``nearest`` first, others until ``PATIENCE`` has passed.

    Cached runs take no time, so a page has all of them after a few reruns.
    """
    runs, end = {nearest: run_at(key, nearest)}, monotonic() + PATIENCE
    for step in sorted(steps(key.model), key=lambda step: abs(step - nearest)):
        if (key, step) in _runs() or monotonic() < end:
            runs[step] = run_at(key, step)
    return runs


def habits(model_name: str, nearest: int) -> dict[int, Measured]:
    """Score every head at each step, in the order of ``runs_by_step``; {} if the probe doesn't fit.

    The last step is always included: the others are compared with it.
    """
    by_step: dict[int, Measured] = {}
    end = monotonic() + PATIENCE
    order = sorted(steps(model_name), key=lambda step: abs(step - nearest))
    for step in (max(order), *order):
        if step in (done := _habits(model_name)) or not by_step or monotonic() < end:
            if step not in done:
                done[step] = measure_probe(model_at(model_name, step))
            if (here := done[step]) is not None:
                by_step[step] = here
    return by_step


def are_all_scored(model_name: str) -> bool:
    """Return whether ``habits`` returns every step at once."""
    return len(_habits(model_name)) == len(steps(model_name))


@st.cache_resource(max_entries=8, show_spinner=False)
def _habits(model_name: str) -> dict[int, Measured | None]:
    return {}


def model_at(model_name: str, step: int) -> gpt2viz.Model:
    """Return the checkpoint of a model at a step. Raises ``CheckpointError``."""
    folder = run_cache.model_folders()[model_name]
    if (shared := preload.find(model_name, folder, step)) is not None:
        return shared
    checkpoints = steps(model_name)
    size = run_cache.load(model_name).nbytes
    return run_cache.load_as((model_name, step), size, lambda: checkpoints[step])


@st.cache_resource
def _runs() -> ByteLRUCache[CheckpointRun]:
    return ByteLRUCache(server_config.run_budget() // 4)
