"""Time a page that runs the model, on one core: opening it in Chromium, and its scripts in Node.

python -m benchmarks.live_page
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import gpt2viz
from tests.browser.conftest import FLAGS, find_chromium
from tests.js.test_scripts import HERE, run

ROUNDS = 5


def main() -> None:
    """Measure, and print a table as in docs/benchmarks.md."""
    os.sched_setaffinity(0, [0])
    with tempfile.TemporaryDirectory() as folder:
        page = gpt2viz.write_page(gpt2viz.load_model(), Path(folder) / "attention.html")
        rows = {"size of the file": f"{page.stat().st_size / 1e6:.2f} MB"}
        rows["opened, to its first picture"] = f"{_opened(page):.2f} s"
        times = run(HERE / "live_times.js", page, str(ROUNDS)).stdout
        for what, seconds in json.loads(times).items():
            rows[what] = f"{1000 * seconds:.0f} ms"
    print("| | |\n|---|---:|", *(f"| {what} | {value} |" for what, value in rows.items()), sep="\n")


def _opened(page: Path) -> float:
    """The median of the seconds from navigation to the first picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        seconds = []
        for _ in range(ROUNDS):
            tab = browser.new_page()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]")
            seconds.append(tab.evaluate("performance.now() / 1000"))
            tab.close()
        browser.close()
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
