"""How long the real app takes from a click to the picture, in Chromium, and what it sends."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import FLAGS, running_app, settle

# Plotly makes a new `calcdata` each time it draws; the last change is the last picture.
_WATCH = """
() => {
  const known = new WeakMap()
  window.drawn = 0
  document.addEventListener("pointerdown", () => { window.clicked = performance.now() }, true)
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter") window.clicked = performance.now()
  }, true)
  const look = () => {
    for (const plot of document.querySelectorAll(".js-plotly-plot")) {
      if (plot.calcdata && known.get(plot) !== plot.calcdata) {
        known.set(plot, plot.calcdata)
        window.drawn = performance.now()
      }
    }
    requestAnimationFrame(look)
  }
  look()
}
"""


class Drawn(NamedTuple):
    """From the click to the last picture, in seconds, and what the server sent, in megabytes."""

    seconds: float
    megabytes: float


class Visitor:
    """One browser page on the app, watched."""

    def __init__(self, page: Page, address: str, **query: Any) -> None:
        self.page = page
        self._received = 0
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        network.on("Network.webSocketFrameReceived", self._count)
        page.goto(f"{address}/?{urlencode(query)}")
        settle(page)
        page.evaluate(_WATCH)

    def _count(self, event: dict[str, Any]) -> None:
        # Chromium reports messages unpacked; they are packed again as the server packs them.
        deflate = zlib.compressobj(wbits=-12, memLevel=5)
        message = base64.b64decode(event["response"]["payloadData"])
        self._received += len(deflate.compress(message) + deflate.flush())

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
        before = self._received
        act()
        self.page.wait_for_timeout(500)
        settle(self.page)
        clicked, drawn = self.page.evaluate("[window.clicked, window.drawn]")
        return Drawn((drawn - clicked) / 1000, (self._received - before) / 1e6)


@contextmanager
def visitor(model: Path, chromium: str) -> Iterator[Visitor]:
    """A fresh app that shows ``model``, and a page on it."""
    with running_app(GPT2VIZ_MODELS=str(model)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        yield Visitor(page, address, model=model.name)
        browser.close()


def layer_changes(model: Path, chromium: str, n_tokens: int, rounds: int) -> list[Drawn]:
    """Change the layer ``rounds`` times, with all heads of a layer on screen."""
    with visitor(model, chromium) as person:
        person.type("x " * (n_tokens // 2))
        return [person.choose("Layer", 1 + n % 10) for n in range(rounds)]
