"""What a model did with a sentence at the points of its training: small, and one for all visitors.

A point is a checkpoint of ``gpt2viz.load_steps``. It is loaded and run once for a sentence; what is
kept of the run is what the page shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

import numpy as np
import streamlit as st

import gpt2viz
from gpt2viz.analysis.births import Measured, measured
from gpt2viz.analysis.lens import LogitLens, logit_lens
from gpt2viz.analysis.sampling import surprise
from gpt2viz.anatomy.training_record import read_record
from gpt2viz.app import limits, owner, run_cache
from gpt2viz.app.byte_cache import Kept
from gpt2viz.arrays import Array, largest
from gpt2viz.model import ahead
from gpt2viz.pictures.pooling import thumbnails
from gpt2viz.run.key import RunKey
from gpt2viz.run.trace import Trace

#: Next tokens that are kept.
TOP = 5
#: A page is drawn after so many seconds of reading points, and asks for the others then.
PATIENCE = 1.5


@dataclass(frozen=True, eq=False)
class Moment:
    """A run at one point: ``tiles`` (n_layer, nh, side, side) of its weights, pooled if long.

    ``following`` are the ids of the most probable next tokens with their probabilities, ``loss``
    the mean of −ln p, in nats, of every token but the first; NaN for a single one. ``lens`` is what
    it would say after the last token if the stream ended earlier.
    """

    tiles: Array
    following: tuple[tuple[int, float], ...]
    loss: float
    lens: LogitLens

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers."""
        return int(self.tiles.nbytes)


def steps(model_name: str) -> gpt2viz.Steps:
    """The checkpoints beside a model's weights. Raises ``CheckpointError``."""
    return _steps(model_name)


@st.cache_resource(max_entries=8, ttl=60, show_spinner=False)
def _steps(model_name: str) -> gpt2viz.Steps:
    folder = run_cache.model_folders()[model_name]
    return gpt2viz.load_steps(folder, model_name, owner.device())


@st.cache_resource(max_entries=8, ttl=60, show_spinner=False)
def tokens_read(model_name: str) -> Mapping[int, int]:
    """Tokens that the model had read at each step, where a record says so."""
    config = run_cache.load(model_name).config
    folder = run_cache.model_folders()[model_name]
    found: dict[int, int] = {}
    for place in (folder, folder / "steps"):
        try:
            record = read_record(place, config.n_layer, config.n_head)
        except gpt2viz.CheckpointError:
            continue
        if record is not None:
            found |= dict(zip(record.steps, map(int, record.tokens), strict=False))
    return found


def _seen(trace: Trace, lens: LogitLens) -> Moment:
    """What is kept of a run."""
    weights = (trace.stage("weights", n)[0] for n in range(trace.config.n_layer))
    probable = trace.next_token_probabilities[0]
    best = largest(probable, TOP)
    bits = surprise(trace)[1:]
    return Moment(
        thumbnails(weights),
        tuple((int(n), float(probable[n])) for n in best),
        float(bits.mean() * np.log(2)) if len(bits) else float("nan"),
        lens,
    )


def final(key: RunKey) -> Moment:
    """What the model itself does with the text of a run."""
    return _seen(run_cache.run(key), _final_lens(key))


def moment(key: RunKey, step: int) -> Moment:
    """What the checkpoint of a step does with the text of a run. Raises ``CheckpointError``.

    Its lens follows what the model itself says in the end.
    """

    def make() -> Moment:
        end, model = _final_lens(key), _model(key.model, step)
        trace = gpt2viz.trace(model, key.token_ids, causal=key.causal)
        return _seen(trace, logit_lens(model, trace, end.positions, end.answer.tolist()))

    return _moments().get((key, step), make)


def _final_lens(key: RunKey) -> LogitLens:
    return run_cache.lens(key, (len(key.token_ids) - 1,))


def known(key: RunKey, wanted: int) -> dict[int, Moment]:
    """The moments of a text by step: ``wanted`` first, others until the patience is at an end.

    What is in memory already counts as nothing, so that a page that asks again gets them all.
    """
    found, end = {wanted: moment(key, wanted)}, monotonic() + PATIENCE
    for step in sorted(steps(key.model), key=lambda one: abs(one - wanted)):
        if (key, step) in _moments() or monotonic() < end:
            found[step] = moment(key, step)
    return found


def habits(model_name: str, wanted: int) -> dict[int, Measured]:
    """What every head does at each step, as ``known`` finds moments; none for want of room.

    The last step is always there: the others are held against it.
    """
    found: dict[int, Measured] = {}
    end = monotonic() + PATIENCE
    nearest = sorted(steps(model_name), key=lambda one: abs(one - wanted))
    for step in (max(nearest), *nearest):
        if step in (done := _habits(model_name)) or not found or monotonic() < end:
            if step not in done:
                done[step] = measured(_model(model_name, step))
            if (here := done[step]) is not None:
                found[step] = here
    return found


@st.cache_resource(max_entries=8, show_spinner=False)
def _habits(model_name: str) -> dict[int, Measured | None]:
    return {}


def _model(model_name: str, step: int) -> gpt2viz.Model:
    folder = run_cache.model_folders()[model_name]
    if (shared := ahead.find(model_name, folder, step)) is not None:
        return shared
    found = steps(model_name)
    size = run_cache.load(model_name).nbytes
    return run_cache.load_as((model_name, step), size, lambda: found[step])


@st.cache_resource
def _moments() -> Kept[Moment]:
    return Kept(limits.kept_runs() // 4)
