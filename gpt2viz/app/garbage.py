"""When Python looks for garbage: while nobody waits for a page.

A page leaves cycles behind, which may hold on to a run. Streamlit has Python look through all that
is in memory after every rerun, and no page gets any further meanwhile; so that is off
(``runner.postScriptGC`` in ``.streamlit/config.toml``). Here it comes once the server has been
quiet for a moment, and on a busy one every ten seconds: what pages leave behind is bounded by what
they make in that time.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import streamlit as st

from gpt2viz.app import metrics, run_cache

#: Seconds without anything new that are quiet enough.
QUIET = 1.0
#: Seconds after which a server that is never quiet has garbage looked for.
LONGEST = 10.0
#: Pages after which the caches begin anew: Streamlit keeps a lock, some hundred bytes, for every
#: value they ever held, five with each page of another sentence, until they are cleared.
PAGES = 5000

_THREAD = "garbage"
_TURN = threading.Lock()


def begin() -> None:
    """Look for garbage from now on, for as long as the process lasts; for every page that opens.

    Among what comes from now on: modules never go away, so they are passed over.
    """
    with _TURN:
        # By its name: where this file is loaded anew, as it is edited, the old thread goes on.
        if any(thread.name == _THREAD for thread in threading.enumerate()):
            return
        gc.collect()
        gc.freeze()
        threading.Thread(target=_look_for_ever, name=_THREAD, daemon=True).start()


class Sweeper:
    """Decides when it is time; ``look`` is to be called again and again.

    ``made`` gives a number that grows while objects are made.
    """

    def __init__(self, now: float, made: Callable[[], int]) -> None:
        self._made = made
        self._swept = self._seen = made()
        self._waiting_since = now

    def look(self, now: float) -> bool:
        """Collect garbage if there is something new, and nobody is busy or it waited too long.

        ``now`` is in seconds. Returns whether it was collected.
        """
        made, seen = self._made(), self._seen
        self._seen = made
        if made == self._swept:
            self._waiting_since = now
            return False
        if made != seen and now - self._waiting_since < LONGEST:
            return False
        gc.collect()
        self._swept = self._seen = self._made()
        self._waiting_since = now
        return True


def _made() -> int:
    """A number that grows while objects are made: how often Python looked through some of them."""
    return sum(generation["collections"] for generation in gc.get_stats())


def _look_for_ever() -> None:
    sweeper, cleared = Sweeper(time.monotonic(), _made), 0
    while True:
        time.sleep(QUIET)
        sweeper.look(time.monotonic())
        if (pages := metrics.current("pages")) >= cleared + PAGES:
            clear_caches()
            cleared = pages


def clear_caches() -> None:
    """Clear what is cached by what visitors asked for; models, runs and jobs stay."""
    st.cache_data.clear()
    run_cache.lens.clear()
