"""Long work in threads, while pages show its results so far: sweeps, weights, downloads."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

import streamlit as st

from gpt2viz import GPT2VizError, Model, PatchSweep
from gpt2viz.analysis.composition import Composition
from gpt2viz.analysis.on_disk import cached_composition, cached_scores
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import prose, run_cache
from gpt2viz.app.literal import literal
from gpt2viz.model import hub
from gpt2viz.run.key import RunKey

#: Seconds after which work that no page has asked for again ends.
UNSEEN = 15


class _EndedError(Exception):
    """Nobody waits for it any more."""


@dataclass(eq=False, kw_only=True)
class Job(ABC):
    """Work on its way: ``share`` of it is done; ``error`` says why it ended early."""

    share: float = 0.0
    error: str = ""
    cancelled: bool = False
    began: float = 0.0
    _seen: float = 0.0
    _still: Event = field(default_factory=Event)  # no thread works on it
    _turn: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._still.set()

    @abstractmethod
    def work(self, model: Model) -> None:
        """Do it all, and ``tell`` after each step what share is done."""

    @property
    def running(self) -> bool:
        """True if more is to come."""
        return not self._still.is_set()

    @property
    def left(self) -> float:
        """Seconds that the rest takes at the pace so far; infinite before the first numbers."""
        gone = time.monotonic() - self.began
        return gone * (1 - self.share) / self.share if self.share else float("inf")

    def go_on(self, model: Model) -> None:
        """Begin, unless it runs, is done or was cancelled; for a page that shows it."""
        self._seen = time.monotonic()
        with self._turn:
            if self.running or self.share == 1 or self.cancelled or self.error:
                return
            self.began = self._seen
            self._still.clear()
            Thread(target=self._run, args=(model,), daemon=True).start()

    def seen(self) -> None:
        """A page still waits for it."""
        self._seen = time.monotonic()

    def cancel(self) -> None:
        """Keep what came, and run no more."""
        self.cancelled = True

    def again(self) -> None:
        """Let it begin anew when a page shows it; what came of it stays until then."""
        self.cancelled, self.error, self.share = False, "", 0.0

    def wait(self, until: float) -> None:
        """Wait for its end, until a time of ``time.monotonic`` at most."""
        self._still.wait(max(0.0, until - time.monotonic()))

    def tell(self, share: float) -> None:
        """Say what share is done. Raises what ends the work where nobody waits for it."""
        self.share = min(share, 0.999)  # 1 is said at the end
        if self.cancelled or time.monotonic() - self._seen > UNSEEN:
            raise _EndedError

    def _run(self, model: Model) -> None:
        try:
            self.work(model)
            self.share = 1.0
        except _EndedError:
            pass
        except GPT2VizError as error:
            self.error = str(error)
        except Exception as error:  # else the page would wait for a thread that is gone
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._still.set()


#: The page is drawn anew each time that so much more is done.
_STEP = 0.15


def bar(jobs: Sequence[Job], doing: str, offer: str, key: str) -> None:
    """A progress bar while jobs run; a message and a button once they have ended early.

    ``offer`` is what the button says that begins it anew; ``key`` is the widgets' own. Nothing is
    drawn once all is done.
    """
    if any(job.running for job in jobs):
        _progress(jobs, doing, key)
    elif any(job.share < 1 for job in jobs):
        _stopped(jobs, offer, key)


def _mean_share(jobs: Sequence[Job]) -> float:
    return sum(job.share for job in jobs) / len(jobs)


@st.fragment(run_every=0.7)
def _progress(jobs: Sequence[Job], doing: str, key: str) -> None:
    """The bar and *Cancel*; the page is drawn again after each ``_STEP`` of progress."""
    drawn: float = st.session_state.setdefault(f"_{key}_drawn", _mean_share(jobs))
    for job in jobs:
        job.seen()
    if not any(job.running for job in jobs) or not drawn <= _mean_share(jobs) < drawn + _STEP:
        del st.session_state[f"_{key}_drawn"]
        st.rerun()
    left = sum(job.left for job in jobs if job.running)
    soon = "" if left == float("inf") else f", {left:.0f} s left"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(_mean_share(jobs), f"{doing}: {100 * _mean_share(jobs):.0f} %{soon}", width=420)
        st.button(
            "Cancel", icon=":material/stop:", key=f"cancel_{key}", on_click=_cancel, args=(jobs,)
        )


def _cancel(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.cancel()


def _stopped(jobs: Sequence[Job], offer: str, key: str) -> None:
    """The reason of an early end, and a button to start again."""
    why = next((job.error for job in jobs if job.error), "")
    with st.container(horizontal=True, vertical_alignment="center"):
        prose.caption(
            literal(why) if why else f"Cancelled at {100 * _mean_share(jobs):.0f} %.",
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
            job.again()


#: Seconds a page waits for the numbers before it is drawn without them.
WAIT_FOR_WEIGHTS = 1.5


@dataclass(eq=False)
class WeightReading(Job):
    """Every head by its weights alone: ``scores`` by name, (n_layer, n_head) each, and the wiring
    between heads. Each is None until it has been read."""

    scores: dict[str, Scores] | None = None
    wiring: Composition | None = None

    def work(self, model: Model) -> None:
        """Read each head, then each pair of heads; either takes about half of the time."""
        self.scores = cached_scores(model, lambda share: self.tell(share / 2))
        self.tell(0.5)
        self.wiring = cached_composition(model, lambda share: self.tell((1 + share) / 2))


def read_weights(model: Model) -> WeightReading:
    """Start reading a named model's weights, and wait ``WAIT_FOR_WEIGHTS`` for the end."""
    reading = _reading(model.name, repr(model.weights))
    reading.go_on(model)
    reading.wait(reading.began + WAIT_FOR_WEIGHTS)
    return reading


@st.cache_resource(max_entries=8, show_spinner=False)
def _reading(name: str, files: str) -> WeightReading:
    return WeightReading()


def weights_bar(reading: WeightReading) -> None:
    """The progress of a reading; nothing once it is done."""
    what = "Reading every head's weights"
    bar([reading], what, "Read every head's weights", "reading")


#: Called with the results so far and the share that is done.
Tell = Callable[[Any, float], None]


class Search(NamedTuple):
    """A search between two runs: all that decides its numbers; hashable.

    ``find`` makes them: a function of a model, the tokens of both runs and ``args``, with
    ``options`` by name.
    """

    find: Callable[..., Any]
    clean: RunKey
    corrupted: RunKey
    args: tuple[Any, ...]
    options: tuple[tuple[str, str], ...] = ()

    def run(self, model: Model, **progress: Tell) -> Any:
        """Make the numbers; ``progress`` is called with those so far, and may raise."""
        texts, causal = (self.clean.token_ids, self.corrupted.token_ids), self.clean.causal
        return self.find(model, *texts, *self.args, causal=causal, **dict(self.options), **progress)


@dataclass(eq=False)
class Sweep(Job):
    """A sweep on its way. ``result`` holds the numbers so far, of a cancelled one too."""

    search: Search
    result: Any = None

    def work(self, model: Model) -> None:
        """Run the search."""
        self.result = self.search.run(model, progress=self._came)

    def _came(self, result: Any, share: float) -> None:
        self.result = result
        self.tell(share)


#: How Streamlit's caches tell searches apart.
_BY_SEARCH: dict[str | type[Any], Callable[[Any], Any]] = {Search: repr}


@st.cache_resource(max_entries=256, hash_funcs=_BY_SEARCH, show_spinner=False)
def sweep_of(search: Search) -> Sweep:
    """The sweep for a search, one for all visitors."""
    return Sweep(search)


def begin_sweeps(sweeps: Sequence[Sweep], model: Model, wait: float) -> None:
    """Start sweeps, and wait some seconds for their end: most small ones are done by then."""
    until = time.monotonic() + wait
    for sweep in sweeps:
        sweep.go_on(model)
    for sweep in sweeps:
        sweep.wait(until)


@st.cache_data(max_entries=64, hash_funcs=_BY_SEARCH, show_spinner="Estimating …")
def estimate(search: Search) -> PatchSweep:
    """The numbers of a search that makes all at once, to first order."""
    numbers: PatchSweep = search.run(run_cache.load(search.clean.model))
    return numbers


@dataclass(eq=False)
class Download:
    """A download: ``here`` counts its bytes so far; ``error`` is the reason of an early end."""

    offer: hub.Offer
    here: int = 0
    ended: bool = False
    error: str = ""
    stop: Event = field(default_factory=Event)

    def run(self) -> None:
        """Fetch it; for a thread of its own."""
        try:
            hub.fetch(self.offer, self._tell, self.stop.is_set)
        except GPT2VizError as error:
            self.error = str(error)
        except Exception as error:  # else the page would wait for a thread that is gone
            self.error = f"{type(error).__name__}: {error}"
        finally:
            run_cache.from_hub.clear()
            self.ended = True

    def _tell(self, here: int) -> None:
        self.here = here


@st.cache_resource
def downloads() -> dict[str, Download]:
    """Name -> the last download of that model, for all visitors."""
    return {}


def start_download(offer: hub.Offer) -> None:
    """Begin a download, or go on with one, unless it is on its way already."""
    current = downloads().get(offer.name)
    if current is None or current.ended:
        downloads()[offer.name] = download = Download(offer, offer.here)
        Thread(target=download.run, daemon=True).start()
