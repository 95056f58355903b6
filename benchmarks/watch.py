"""Measure when a page drew its last picture, in the same way for every page."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.browser.conftest import FLAGS

# Checks for changes in every frame, and notes the time of the next frame, when they are painted.
# PLOTS: a canvas is painted, or Plotly has new `calcdata`. Otherwise also any new element.
_WATCH = """
(() => {
  const known = new WeakMap()
  let elements = 0
  let brushed = false
  let painted = false
  window.drawn = window.drawnFirst = window.quietFrames = 0
  document.addEventListener("pointerdown", () => { window.clicked = performance.now() }, true)
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter") window.clicked = performance.now()
  }, true)
  const brush = CanvasRenderingContext2D.prototype
  for (const name of ["putImageData", "drawImage", "fillRect"]) {
    const original = brush[name]
    brush[name] = function (...given) {
      brushed = true
      painted ||= name !== "fillRect"  // fillRect only reads the theme's colour
      return original.apply(this, given)
    }
  }
  const newPlot = () => {
    let fresh = painted
    painted = false
    for (const plot of document.querySelectorAll(".js-plotly-plot")) {
      if (plot.calcdata && known.get(plot) !== plot.calcdata) {
        known.set(plot, plot.calcdata)
        fresh = true
      }
    }
    return fresh
  }
  const newElement = () => {
    const before = elements
    elements = document.getElementsByTagName("*").length
    const fresh = elements !== before || brushed
    brushed = false
    return fresh
  }
  const look = () => {
    window.quietFrames += 1
    if (PLOTS ? newPlot() : newElement()) {
      window.quietFrames = 0
      requestAnimationFrame(() => {
        window.drawn = performance.now()
        window.drawnFirst = window.drawnFirst || window.drawn
      })
    }
    requestAnimationFrame(look)
  }
  look()
})()
"""


_WINDOW: ViewportSize = {"width": 1440, "height": 900}


class Times(NamedTuple):
    """Seconds since the epoch: the page opened, clicked or Enter, first and last picture."""

    opened: float
    clicked: float
    first: float
    last: float


def watch(page: Page, *, plots: bool) -> None:
    """Watch every page that will be opened: Plotly's pictures only, or all that appears."""
    page.add_init_script(_WATCH.replace("PLOTS", "true" if plots else "false"))


def times(page: Page) -> Times:
    """The times noted so far."""
    result = page.evaluate(
        "[0, window.clicked || 0, window.drawnFirst, window.drawn]"
        ".map(n => (performance.timeOrigin + n) / 1000)"
    )
    return Times(*result)


def wait_until_quiet(page: Page, drawn: str, limit: float) -> None:
    """Wait until ``drawn``, in JavaScript, is true and nothing has changed for a second.

    Raises Playwright's ``TimeoutError`` after ``limit`` seconds.
    """
    # Counted in frames, which don't pass while a script keeps the page busy.
    page.wait_for_function(f"() => window.quietFrames > 60 && {drawn}", timeout=1000 * limit)


class Traffic:
    """The bytes that a page receives: files, and the app's compressed messages."""

    def __init__(self, page: Page) -> None:
        self.files = self.messages = 0
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        network.send("Performance.enable")
        self._page = network
        network.on("Network.loadingFinished", self._file)
        network.on("Network.webSocketFrameReceived", self._message)

    def metrics(self) -> dict[str, float]:
        """Chromium's metrics of the page, such as processor seconds."""
        result = self._page.send("Performance.getMetrics")["metrics"]
        return {metric["name"]: float(metric["value"]) for metric in result}

    def _file(self, event: dict[str, Any]) -> None:
        self.files += int(event["encodedDataLength"])

    def _message(self, event: dict[str, Any]) -> None:
        # Chromium reports messages uncompressed; compress them again as the server does.
        deflate = zlib.compressobj(wbits=-12, memLevel=5)
        message = base64.b64decode(event["response"]["payloadData"])
        self.messages += len(deflate.compress(message) + deflate.flush())


@contextmanager
def fresh_page(chromium: str) -> Iterator[Page]:
    """A page in a new browser, with nothing cached."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser.new_page(viewport=_WINDOW)
        browser.close()


def another_page(beside: Page) -> Page:
    """Another visitor's page in the same browser."""
    browser = beside.context.browser
    assert browser  # noqa: S101 (for mypy)
    return browser.new_page(viewport=_WINDOW)
