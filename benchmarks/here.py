"""Choices on the first screen: the time from click to picture, beside another checkout.

    python -m benchmarks.here --beside FOLDER

With the bundled model on 19 tokens, alternating in one browser: the time, the server's processor
time until the page is quiet, and the messages that the browser sent.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from playwright.sync_api import Page, WebSocket

from benchmarks.browser import visitors
from tests.browser.conftest import ROOT, find_chromium, settle
from tests.browser.test_browser import MIDDLE, picture

TEXT = "When Mary and John went to the garden, John gave the flower to Mary. Then they ate"

# Notes when the pointer went up, and when a canvas or lines were last drawn.
_WATCH = """
() => {
  const brush = CanvasRenderingContext2D.prototype, note = () => { window.done = performance.now() }
  for (const name of ["putImageData", "drawImage"]) {
    const original = brush[name]
    brush[name] = function (...given) {
      requestAnimationFrame(note)
      return original.apply(this, given)
    }
  }
  const { append } = Element.prototype
  SVGElement.prototype.append = function (...given) {
    requestAnimationFrame(note)
    return append.apply(this, given)
  }
  addEventListener("pointerup", () => { window.up = performance.now() }, true)
}
"""


class Choice(NamedTuple):
    """Milliseconds to the last picture and of server processor time; messages sent."""

    wait: float
    server: float
    messages: int


def _press(page: Page, key: str, cell: list[int]) -> None:
    page.mouse.move(*picture(page, key).evaluate(MIDDLE, cell))
    page.wait_for_timeout(150)
    page.mouse.down()
    page.mouse.up()


def _drag(page: Page) -> None:
    large = picture(page, "head_large")
    page.mouse.move(*large.evaluate(MIDDLE, [0, 3.6, 0.6]))
    page.mouse.down()
    page.mouse.move(*large.evaluate(MIDDLE, [0, 14.4, 11.4]), steps=4)
    page.mouse.up()


def _keep(frames: list[object], socket: WebSocket) -> None:
    socket.on("framesent", lambda frame: frames.append(frame))


#: Choices, made one after the other on a fresh page; cells are [panel, row, column].
CHOICES: dict[str, Callable[[Page], None]] = {
    "another head": lambda page: _press(page, "heads", [13, 9, 9]),
    "a token's row": lambda page: _press(page, "head_large", [0, 6, 2]),
    "a part": _drag,
    "the whole text": lambda page: page.get_by_role("button", name="Show the whole text").click(),
    "lines": lambda page: page.get_by_role("radio", name="Lines").click(),
    "the matrix": lambda page: page.get_by_role("radio", name="Matrix").click(),
}


def main() -> None:
    """Print a table with the medians of both checkouts for each choice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    results: dict[str, list[list[Choice]]] = {name: [[], []] for name in CHOICES}
    sent: tuple[list[object], list[object]] = [], []
    with visitors(find_chromium() or "", roots=(given.beside, ROOT)) as people:
        for person, frames in zip(people, sent, strict=True):
            person.page.on("websocket", partial(_keep, frames))
        for round_ in range(given.rounds + 1):
            for n, person in enumerate(people):
                person.open("", text=TEXT, layer="0", head="1")
                person.page.wait_for_timeout(1500)
                person.page.evaluate(_WATCH)
                for name, act in CHOICES.items():
                    before, used = len(sent[n]), person.served()
                    act(person.page)
                    person.page.wait_for_timeout(600)
                    settle(person.page)
                    wait = person.page.evaluate("window.done - window.up")
                    if round_:  # the first round fills caches
                        server, messages = person.served() - used, len(sent[n]) - before
                        results[name][n].append(Choice(wait, 1000 * server, messages))
    print("| | ms, before | ms, now | server's ms, before | now | messages, before | now |")
    print("|---|---|---|---|---|---|---|")
    for name, both in results.items():
        columns = [
            f"{median(row[column] for row in each):.0f}" for column in range(3) for each in both
        ]
        print(f"| {name} | {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
