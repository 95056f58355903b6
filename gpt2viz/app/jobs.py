"""Long work in threads, while pages show its results so far: sweeps, weights, downloads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

import streamlit as st

from gpt2viz import GPT2VizError, Model, PatchSweep
from gpt2viz.analysis.composition import Composition
from gpt2viz.analysis.on_disk import cached_composition, cached_scores
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import prose, run_cache
from gpt2viz.app.literal import literal
from gpt2viz.labels import percent
from gpt2viz.model import hub

#: Work ends once no page has asked for it for this many seconds.
UNSEEN = 15


class _EndedError(Exception):
    """The job was cancelled, or no page waits for it any more."""


@dataclass(eq=False)
class Job:
    """Work in a thread: ``share`` of it is done; ``error`` says why it ended early.

    ``work`` gets this job, and returns the result. After each step it calls ``tell`` or ``report``.
    ``result`` holds the numbers so far, even if the job is cancelled. ``requested`` is true once a
    visitor has started it.
    """

    work: Callable[[Job], Any]
    result: Any = None
    share: float = 0.0
    error: str = ""
    cancelled: bool = False
    requested: bool = False
    began: float = 0.0
    _seen: float = 0.0
    _idle: Event = field(default_factory=Event)  # no thread works on it
    _start_lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._idle.set()

    @property
    def running(self) -> bool:
        """True while a thread works on it."""
        return not self._idle.is_set()

    @property
    def left(self) -> float:
        """Seconds left at the pace so far; infinite before the first numbers."""
        elapsed = time.monotonic() - self.began
        return elapsed * (1 - self.share) / self.share if self.share else float("inf")

    def start(self) -> None:
        """Start it unless it is running, done, failed or cancelled; for a page that shows it."""
        self._seen = time.monotonic()
        with self._start_lock:
            if self.running or self.share == 1 or self.cancelled or self.error:
                return
            self.began = self._seen
            self._idle.clear()
            Thread(target=self._run, daemon=True).start()

    def touch(self) -> None:
        """Note that a page still waits for it."""
        self._seen = time.monotonic()

    def cancel(self) -> None:
        """Stop, and keep the results so far."""
        self.cancelled = True

    def reset(self) -> None:
        """Let the next page that shows it restart it; its results stay until then."""
        self.cancelled, self.error, self.share = False, "", 0.0

    def wait(self, until: float) -> None:
        """Wait for its end, at most until ``time.monotonic()`` reaches ``until``."""
        self._idle.wait(max(0.0, until - time.monotonic()))

    def tell(self, share: float) -> None:
        """Report the share done. Raises to end the work if it was cancelled or no page waits."""
        self.share = min(share, 0.999)  # 1 means that it has ended
        if self.cancelled or time.monotonic() - self._seen > UNSEEN:
            raise _EndedError

    def report(self, result: Any, share: float) -> None:
        """Report the numbers so far and, like ``tell``, the share done."""
        self.result = result
        self.tell(share)

    def _run(self) -> None:
        try:
            self.result = self.work(self)
            self.share = 1.0
        except _EndedError:
            pass
        except GPT2VizError as error:
            self.error = str(error)
        except Exception as error:  # otherwise the page would wait for a dead thread
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._idle.set()


#: Seconds that a page waits for the first numbers before it is drawn without them.
WAIT = 1.5
#: The page is redrawn after each such share of progress.
_STEP = 0.15


def run(
    jobs: Sequence[Job], doing: str, offer: str, key: str, at_once: bool = False, until: str = ""
) -> bool:
    """Start jobs and draw their ``bar``, ``at_once`` or once a visitor has pressed a button.

    The button's label is ``offer``; beside it is the caption ``until``. Returns whether they were
    started.
    """
    if not (at_once or any(job.requested or job.share for job in jobs)):
        with st.container(horizontal=True, vertical_alignment="center"):
            if until:
                prose.caption(until, width="content")
            st.button(
                offer,
                icon=":material/play_arrow:",
                help="Takes a while with a large model or a long text.",
                on_click=_request,
                args=(jobs,),
                key=f"{key}_offer",
            )
        return False
    for job in jobs:
        job.start()
    for job in jobs:
        job.wait(job.began + WAIT)
    bar(jobs, doing, offer, key)
    return True


def _request(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.requested = True


def bar(jobs: Sequence[Job], doing: str, offer: str, key: str) -> None:
    """Draw a progress bar while jobs run; a message and a button if they ended early.

    ``offer`` is the label of the button that restarts them; ``key`` is for the widgets. Nothing is
    drawn once all are done.
    """
    if any(job.running for job in jobs):
        _progress(jobs, doing, key)
    elif any(job.share < 1 for job in jobs):
        _offer_restart(jobs, offer, key)


def _mean_share(jobs: Sequence[Job]) -> float:
    return sum(job.share for job in jobs) / len(jobs)


@st.fragment(run_every=0.7)
def _progress(jobs: Sequence[Job], doing: str, key: str) -> None:
    """Draw the bar and *Cancel*; redraw the page after each ``_STEP`` of progress."""
    drawn: float = st.session_state.setdefault(f"_{key}_drawn", _mean_share(jobs))
    for job in jobs:
        job.touch()
    if not any(job.running for job in jobs) or not drawn <= _mean_share(jobs) < drawn + _STEP:
        del st.session_state[f"_{key}_drawn"]
        st.rerun()
    left = sum(job.left for job in jobs if job.running)
    eta = "" if left == float("inf") else f", {left:.0f} s left"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(_mean_share(jobs), f"{doing}: {percent(_mean_share(jobs))}{eta}", width=420)
        st.button(
            "Cancel", icon=":material/stop:", key=f"cancel_{key}", on_click=_cancel, args=(jobs,)
        )


def _cancel(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.cancel()


def _offer_restart(jobs: Sequence[Job], offer: str, key: str) -> None:
    """Draw the reason for an early end, and a button to start again."""
    why = next((job.error for job in jobs if job.error), "")
    with st.container(horizontal=True, vertical_alignment="center"):
        prose.caption(
            literal(why) if why else f"Cancelled at {percent(_mean_share(jobs))}.",
            width="content",
        )
        st.button(
            offer,
            icon=":material/refresh:",
            key=f"{key}_again",
            on_click=_restart,
            args=(jobs,),
        )


def _restart(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.share < 1:
            job.reset()


class WeightNumbers(NamedTuple):
    """Every head by its weights alone: ``scores`` by name, (n_layer, n_head) each, and the wiring
    between heads. Both are None until computed."""

    scores: dict[str, Scores] | None = None
    wiring: Composition | None = None


def _read(model_name: str, job: Job) -> WeightNumbers:
    """Score each head, then each pair of heads; each takes about half of the time."""
    model = run_cache.load(model_name)
    scores = cached_scores(model, lambda share: job.tell(share / 2))
    job.report(WeightNumbers(scores), 0.5)
    wiring = cached_composition(model, lambda share: job.tell((1 + share) / 2))
    return WeightNumbers(scores, wiring)


def read_weights(model: Model) -> Job:
    """Start reading a named model's weights, ``WeightNumbers``, and wait ``WAIT`` seconds."""
    reading = _reading(model.name, repr(model.weight_files))
    reading.start()
    reading.wait(reading.began + WAIT)
    return reading


@st.cache_resource(max_entries=8, show_spinner=False)
def _reading(name: str, files: str) -> Job:
    return Job(partial(_read, name), WeightNumbers())


def weights_bar(reading: Job) -> None:
    """Draw the progress of a reading; nothing once it is done."""
    what = "Reading every head's weights"
    bar([reading], what, "Read every head's weights", "reading")


#: How Streamlit's caches hash a search: a function of a model, with all its other arguments.
_BY_REPR: dict[str | type[Any], Callable[[Any], Any]] = {partial: repr}


@st.cache_resource(max_entries=256, hash_funcs=_BY_REPR, show_spinner=False)
def sweep_of(model_name: str, search: partial[Any]) -> Job:
    """Return the job that runs a search on a model, which all visitors share."""
    return Job(lambda job: search(run_cache.load(model_name), progress=job.report))


@st.cache_data(max_entries=64, hash_funcs=_BY_REPR, show_spinner="Estimating …")
def estimate(model_name: str, search: partial[PatchSweep]) -> PatchSweep:
    """Return the result of a search that computes everything at once, to first order."""
    return search(run_cache.load(model_name))


@st.cache_resource
def downloads() -> dict[str, Job]:
    """Name -> the last download of that model, for all visitors; its result counts its bytes."""
    return {}


def start_download(offer: hub.Offer) -> None:
    """Start or resume a download unless it is running already."""
    current = downloads().get(offer.name)
    if current is None or not current.running:
        downloads()[offer.name] = job = Job(partial(_fetch, offer), offer.here)
        job.start()


def _fetch(offer: hub.Offer, job: Job) -> int:
    """Fetch a model, and return its bytes; this continues even if no page waits."""
    try:
        hub.fetch(offer, partial(setattr, job, "result"), lambda: job.cancelled)
    finally:
        run_cache.hub_cache.clear()
    return offer.nbytes
