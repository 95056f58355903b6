"""The queue of pages to draw: one at a time, in the order of asking.

One thread at a time runs Python. Where a hundred pages are drawn at once, each gets a hundredth of
it, and all the others wake two hundred times a second to ask for theirs; so all of them are late.
Two at once already hinder each other more than they gain while a model runs: see ``docs/soak.md``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpt2viz.app import metrics

#: Pages under way at a time.
AT_ONCE = 1
#: Seconds after which a page that takes long keeps nobody waiting any more. Most take a tenth.
LONGEST = 0.5


class RenderQueue:
    """Starts ``at_once`` pages at a time; one that takes over ``longest`` seconds isn't counted.

    So nobody waits for one that computes for a minute, and none can wait for another for ever.
    """

    def __init__(
        self,
        at_once: int = AT_ONCE,
        longest: float = LONGEST,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free, self._longest, self._now = at_once, longest, now
        self._lock = threading.Lock()
        self._began: dict[threading.Event, float] = {}  # of those that count
        self._waiting: deque[threading.Event] = deque()

    def take(self) -> threading.Event:
        """Wait for a turn, in the order of asking; what to give back."""
        mine = threading.Event()
        with self._lock:
            self._waiting.append(mine)
            self._go_on()
        while not mine.wait(self._longest):
            with self._lock:
                self._go_on()
        return mine

    def give_back(self, mine: threading.Event) -> None:
        """Let the next begin."""
        with self._lock:
            self._end(mine)
            self._go_on()

    def _go_on(self) -> None:
        """Let begin who may."""
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
    """Wait for the turn of a page, and end it."""
    with metrics.counted("waiting"):
        mine = _QUEUE.take()
    metrics.count("pages")
    try:
        yield
    finally:
        _QUEUE.give_back(mine)
