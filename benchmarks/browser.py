"""The real app's time from a click to the picture, in Chromium, and the bytes that it sends."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import psutil
from playwright.sync_api import Page

from benchmarks.watch import Traffic, another_page, fresh_page, times, wait_until_quiet, watch
from tests.browser.conftest import ROOT, open_from_menu, running_checkout, settle

#: Short sentences, each typed once, so that none is cached.
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
    """From the click to the last picture, in seconds, and what the server sent, in megabytes.

    ``server`` and ``page`` are processor seconds until the page was quiet: of the server, and of
    the browser's main thread for the page.
    """

    seconds: float
    megabytes: float
    server: float
    page: float


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


# The middle of a layer's first head in the map.
_HEAD = """
(view, layer) => {
  const { boxes, side } = view.look, { x, y } = boxes[layer * view.p.heads]
  const box = view.getBoundingClientRect()
  return [box.x + x + side / 2, box.y + y + side / 2]
}
"""


class Visitor:
    """One browser page on the app, watched."""

    def __init__(self, page: Page, address: str, shown: Mapping[str, str]) -> None:
        self.page, self._address, self._shown = page, address, shown
        self._traffic = Traffic(page)
        port = str(urlsplit(address).port)
        self._server = next(p for p in psutil.Process().children() if port in p.cmdline())
        watch(page, plots=True)
        self.open("")

    def open(self, name: str, **chosen: str) -> None:
        """Open a page of the app by its address."""
        self.page.goto(f"{self._address}/{name}?{urlencode({**self._shown, **chosen})}")
        settle(self.page)

    def type(self, text: str) -> Drawn:
        """Write a sentence and press Enter."""
        box = self.page.get_by_role("textbox", name="Sentence")
        box.fill(text)
        return self._timed(lambda: box.press("Enter"))

    def choose_layer(self, layer: int) -> Drawn:
        """Click a layer's first head in the map."""
        self.page.mouse.move(*self.page.locator(".map").evaluate(_HEAD, layer))
        self.page.wait_for_timeout(200)  # its row lights up before the click

        def click() -> None:
            self.page.mouse.down()
            self.page.mouse.up()

        return self._timed(click)

    def follow(self, title: str) -> Drawn:
        """Open another page from the menu."""
        return self._timed(lambda: open_from_menu(self.page, title))

    def _timed(self, act: Any) -> Drawn:
        before, server, page = self._traffic.messages, self.served(), self._drew()
        act()
        self.page.wait_for_timeout(500)
        settle(self.page)
        wait_until_quiet(self.page, "window.drawn > window.clicked", PATIENCE)
        result = times(self.page)
        return Drawn(
            result.last - result.clicked,
            (self._traffic.messages - before) / 1e6,
            self.served() - server,
            self._drew() - page,
        )

    def served(self) -> float:
        """The processor seconds that the server has used."""
        used = self._server.cpu_times()
        return float(used.user + used.system)

    def _drew(self) -> float:
        """The processor seconds that the page's main thread has used."""
        return self._traffic.metrics()["ThreadTime"]


def checkout(root: Path, model: Path | None = None) -> AbstractContextManager[str]:
    """Run the app of a checkout with ``model`` or the bundled one; gives its address."""
    return running_checkout(root, ["--no-browser"], {"GPT2VIZ_MODELS": str(model or "")})


@contextmanager
def visitors(
    chromium: str, model: Path | str = "", roots: Sequence[Path] = (ROOT,)
) -> Iterator[list[Visitor]]:
    """A fresh app of each checkout, showing ``model``, by its folder or its name in the app, or the
    bundled one, and a page on it."""
    shown = {"model": Path(model).name} if model else {}
    with ExitStack() as stack:
        pages = [stack.enter_context(fresh_page(chromium))]
        pages += [another_page(pages[0]) for _ in roots[1:]]
        apps = [checkout(root, model if isinstance(model, Path) else None) for root in roots]
        addresses = [stack.enter_context(app) for app in apps]
        yield [Visitor(*each, shown) for each in zip(pages, addresses, strict=True)]


def layer_changes(
    model: Path, chromium: str, n_tokens: int, rounds: int, roots: Sequence[Path]
) -> list[list[Drawn]]:
    """Change the layer ``rounds`` times, with all heads of a layer on screen: by checkout."""
    with visitors(chromium, model, roots) as people:
        for person in people:
            person.type("x " * (n_tokens // 2))
            person.choose_layer(11)
        results = [[person.choose_layer(1 + n % 10) for person in people] for n in range(rounds)]
        return [list(column) for column in zip(*results, strict=True)]


def maps(model: Path | str, chromium: str, texts: Sequence[str]) -> list[Drawn]:
    """Open the map of every head on texts that another page has run already."""
    results = []
    with visitors(chromium, model) as (person,):
        for text in texts:
            person.open("shapes", text=text)
            results.append(person.follow("Attention"))
    return results


def sentences(chromium: str) -> list[Drawn]:
    """Type one sentence after the other on the Attention page, with the bundled model."""
    with visitors(chromium) as (person,):
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
        result = times(page)
        return Opened(result.last - result.opened, traffic.messages / 1e6, traffic.files / 1e6)


def start(chromium: str, root: Path) -> Started:
    """Start a checkout's app as ``make run`` does, and open its address as soon as it answers."""
    with fresh_page(chromium) as page:
        watch(page, plots=True)
        begun = time.time()
        with checkout(root) as address:
            answers = time.time()
            page.goto(address, wait_until="commit")
            wait_until_quiet(page, "window.drawn", PATIENCE)
            settle(page)
            result = times(page)
    return Started(*(moment - begun for moment in (answers, result.first, result.last)))


def torch_import() -> float:
    """The seconds that a fresh process takes to import torch."""
    code = "import time; begun = time.perf_counter(); import torch; "
    code += "print(time.perf_counter() - begun)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return float(done.stdout)
