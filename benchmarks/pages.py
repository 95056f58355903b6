"""Measure how soon each page is drawn, alternating with another checkout of this app.

    python -m benchmarks.pages --beside ../before --rounds 5

A page is opened by its address, each time by a new visitor, who has seen only the first page; its
time ends when everything is drawn and nothing more arrives.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Page

from benchmarks.browser import checkout
from benchmarks.watch import another_page, fresh_page
from gpt2viz.app import pages
from tests.browser.conftest import POLL, POLLS, ROOT, find_chromium, settle

#: In a checkout that draws with Plotly, settled also means that Plotly has drawn.
_PLOTTED = """
() => [...document.querySelectorAll("[data-testid=stPlotlyChart]")]
  .every(chart => chart.querySelector(".main-svg"))
"""


def first_drawn(beside: Page, app: str, page: str) -> float:
    """The seconds until a page is drawn, opened by a new visitor who has seen the first page."""
    visitor = another_page(beside)
    _open(visitor, app)
    seconds = _open(visitor, f"{app}/{page}")
    visitor.context.close()
    return seconds


def _open(page: Page, address: str) -> float:
    begun = time.perf_counter()
    page.goto(address)
    page.wait_for_function(_PLOTTED)
    settle(page)
    return time.perf_counter() - begun - POLL * POLLS / 1000


def main() -> None:
    """Print a table: the median seconds of each page here and there, and the median ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, required=True, help="another checkout")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print("| page | here, s (min to max) | there, s (min to max) | ratio |\n|---|---|---|---|")
    with ExitStack() as stack:
        apps = [stack.enter_context(checkout(root)) for root in (ROOT, given.beside.resolve())]
        here = stack.enter_context(fresh_page(find_chromium() or ""))
        for page in (*(p.address for p in pages.MENU), "textbook?chapter=heads"):
            rounds = [[first_drawn(here, app, page) for app in apps] for _ in range(given.rounds)]
            mine, theirs = (
                f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"
                for times in zip(*rounds, strict=True)
            )
            ratio = statistics.median(a / b for a, b in rounds)
            print(f"| {page or 'attention'} | {mine} | {theirs} | **{ratio:.2f}** |", flush=True)


if __name__ == "__main__":
    main()
