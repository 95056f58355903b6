"""Collect garbage while no page is being drawn.

A page leaves reference cycles behind, which may keep a run alive. Streamlit would do a full
collection after every rerun, which blocks all pages; so that is off (``runner.postScriptGC`` in
``.streamlit/config.toml``). Here it runs once the server has been quiet for a moment, and on a busy
one every ten seconds, so that garbage is bounded by what pages make in that time.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import streamlit as st

from gpt2viz.app import metrics, run_cache

#: Seconds without new objects that count as quiet.
QUIET = 1.0
#: Seconds after which garbage is collected even on a busy server.
LONGEST = 10.0
#: Pages after which the caches are cleared: until then Streamlit keeps a lock, about a hundred
#: bytes, for every value that they ever held: five for each page with another sentence.
PAGES = 5000

_THREAD = "garbage"
_LOCK = threading.Lock()


def begin() -> None:
    """Start the thread that collects garbage, unless it runs. Every page calls it as it opens.

    Objects that exist by then, such as modules, are frozen: collections skip them.
    """
    with _LOCK:
        # Found by name: when this file is edited and reloaded, the old thread keeps running.
        if any(thread.name == _THREAD for thread in threading.enumerate()):
            return
        gc.collect()
        gc.freeze()
        threading.Thread(target=_sweep_forever, name=_THREAD, daemon=True).start()


class Sweeper:
    """Decides when to collect; call ``look`` again and again.

    ``made`` returns a number that grows while objects are made.
    """

    def __init__(self, now: float, made: Callable[[], int]) -> None:
        self._collections = made
        self._swept = self._seen = made()
        self._waiting_since = now

    def look(self, now: float) -> bool:
        """Collect garbage if there is some, once no objects are made or after ``LONGEST`` seconds.

        ``now`` is in seconds. Returns whether it collected.
        """
        made, seen = self._collections(), self._seen
        self._seen = made
        if made == self._swept:
            self._waiting_since = now
            return False
        if made != seen and now - self._waiting_since < LONGEST:
            return False
        gc.collect()
        self._swept = self._seen = self._collections()
        self._waiting_since = now
        return True


def _collections() -> int:
    """Return the number of Python's own collections, which grows while objects are made."""
    return sum(generation["collections"] for generation in gc.get_stats())


def _sweep_forever() -> None:
    sweeper, cleared = Sweeper(time.monotonic(), _collections), 0
    while True:
        time.sleep(QUIET)
        sweeper.look(time.monotonic())
        if (pages := metrics.get_count("pages")) >= cleared + PAGES:
            clear_caches()
            cleared = pages


def clear_caches() -> None:
    """Clear the caches of results that depend on visitors' texts; models, runs and jobs stay."""
    st.cache_data.clear()
    run_cache.lens.clear()
