"""How long the real app takes from a click to the picture, in Chromium, and what it sends."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from playwright.sync_api import Page

from benchmarks.watch import Traffic, fresh_page, times, wait_until_quiet, watch
from tests.browser.conftest import running_app, settle

#: Short sentences, each typed once: the words of one are not kept for the next.
SENTENCES = (
    "A crane ate fish",
    "The dog slept by the door",
    "She had never seen the sea",
    "It was a cold, dark night",
    "My brother lost his hat",
    "Nobody knew what to say",
    "The king had three daughters",
    "We walked home in the rain",
    "He opened the old box",
    "What did the fox say?",
    "They sat round the fire",
    "Once upon a time there was",
)

#: Seconds that a busy machine may take to draw, before it is an error.
PATIENCE = 120


class Drawn(NamedTuple):
    """From the click to the last picture, in seconds, and what the server sent, in megabytes."""

    seconds: float
    megabytes: float


class Opened(NamedTuple):
    """From opening the address to the last picture, in seconds; megabytes of messages and files."""

    seconds: float
    megabytes: float
    app_megabytes: float


class Started(NamedTuple):
    """Seconds since the start of the process: the server answers, first and last picture."""

    answers: float
    first: float
    last: float


class Visitor:
    """One browser page on the app, watched."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self._traffic = Traffic(page)
        watch(page, plots=True)
        page.goto(address)
        settle(page)

    def type(self, text: str) -> Drawn:
        """Write a sentence and press Enter."""
        box = self.page.get_by_role("textbox", name="Sentence")
        box.fill(text)
        return self._timed(lambda: box.press("Enter"))

    def choose(self, label: str, number: int) -> Drawn:
        """Click a layer or head by its number."""
        group = self.page.get_by_test_id("stButtonGroup").filter(has_text=label)
        return self._timed(group.get_by_text(str(number), exact=True).first.click)

    def _timed(self, act: Any) -> Drawn:
        before = self._traffic.messages
        act()
        self.page.wait_for_timeout(500)
        settle(self.page)
        wait_until_quiet(self.page, "window.drawn > window.clicked", PATIENCE)
        found = times(self.page)
        return Drawn(found.last - found.clicked, (self._traffic.messages - before) / 1e6)


@contextmanager
def visitor(chromium: str, model: Path | None = None) -> Iterator[Visitor]:
    """A fresh app that shows ``model``, or the bundled one, and a page on it."""
    shown = {"model": model.name} if model else {}
    with (
        running_app(GPT2VIZ_MODELS=str(model or "")) as address,
        fresh_page(chromium) as page,
    ):
        yield Visitor(page, f"{address}/?{urlencode(shown)}")


def layer_changes(model: Path, chromium: str, n_tokens: int, rounds: int) -> list[Drawn]:
    """Change the layer ``rounds`` times, with all heads of a layer on screen."""
    with visitor(chromium, model) as person:
        person.type("x " * (n_tokens // 2))
        return [person.choose("Layer", 1 + n % 10) for n in range(rounds)]


def sentences(chromium: str) -> list[Drawn]:
    """Type one sentence after the other on the Attention page, with the bundled model."""
    with visitor(chromium) as person:
        person.type("This one is not counted")
        return [person.type(text) for text in SENTENCES]


def opening(address: str, model: str, text: str, chromium: str) -> Opened:
    """Open the Attention page on a text, in a fresh browser."""
    with fresh_page(chromium) as page:
        traffic = Traffic(page)
        watch(page, plots=True)
        page.goto(f"{address}/?{urlencode({'model': model, 'text': text})}", wait_until="commit")
        wait_until_quiet(page, "window.drawn", PATIENCE)
        settle(page)
        found = times(page)
        return Opened(found.last - found.opened, traffic.messages / 1e6, traffic.files / 1e6)


def start(chromium: str) -> Started:
    """Start the app as ``make run`` does, and open its address as soon as it answers."""
    with fresh_page(chromium) as page:
        watch(page, plots=True)
        begun = time.time()
        with running_app(GPT2VIZ_MODELS="") as address:
            answers = time.time()
            page.goto(address, wait_until="commit")
            wait_until_quiet(page, "window.drawn", PATIENCE)
            settle(page)
            found = times(page)
    return Started(*(moment - begun for moment in (answers, found.first, found.last)))


def torch_import() -> float:
    """How long a fresh process takes to import torch, in seconds."""
    code = "import time; begun = time.perf_counter(); import torch; "
    code += "print(time.perf_counter() - begun)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return float(done.stdout)
