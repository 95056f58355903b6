"""The queue of pages to draw: one at a time, first come, first served.

Only one thread at a time holds the GIL. Of a hundred pages drawn at once, each gets a hundredth of
it, while the others wake two hundred times a second to request it; so all of them are late. Even
two at once cost each other more than they gain while a model runs: see ``docs/soak.md``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpt2viz.app import metrics

#: Pages drawn at a time.
AT_ONCE = 1
#: Seconds after which a slow page stops blocking others. Most take a tenth of a second.
LONGEST = 0.5


class RenderQueue:
    """Starts ``at_once`` pages at a time; one that takes over ``longest`` seconds isn't counted.

    So no page waits for one that computes for a minute, and none waits for another forever.
    """

    def __init__(
        self,
        at_once: int = AT_ONCE,
        longest: float = LONGEST,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free, self._longest, self._now = at_once, longest, now
        self._lock = threading.Lock()
        self._began: dict[threading.Event, float] = {}  # of the pages that are counted
        self._waiting: deque[threading.Event] = deque()

    def take(self) -> threading.Event:
        """Wait for a turn, first come, first served; return the ticket to give back."""
        ticket = threading.Event()
        with self._lock:
            self._waiting.append(ticket)
            self._start_waiting()
        while not ticket.wait(self._longest):
            with self._lock:
                self._start_waiting()
        return ticket

    def give_back(self, ticket: threading.Event) -> None:
        """End a turn, and let the next page begin."""
        with self._lock:
            self._end(ticket)
            self._start_waiting()

    def _start_waiting(self) -> None:
        """Start waiting pages while there is room."""
        late = self._now() - self._longest
        for event in [event for event, began in self._began.items() if began <= late]:
            self._end(event)
        while self._free and self._waiting:
            self._free -= 1
            self._began[event := self._waiting.popleft()] = self._now()
            event.set()

    def _end(self, event: threading.Event) -> None:
        if self._began.pop(event, None) is not None:
            self._free += 1


_QUEUE = RenderQueue()


@contextmanager
def turn() -> Iterator[None]:
    """Wait for a page's turn, and end it afterwards."""
    with metrics.count_while("waiting"):
        ticket = _QUEUE.take()
    metrics.count("pages")
    try:
        yield
    finally:
        _QUEUE.give_back(ticket)
