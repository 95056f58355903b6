"""A real notebook in a real Chromium: what is shown there, and a click on one of its cells.

Where a kernel runs, what shows ``SHOW`` reads ``CLICKED`` afterwards, if all goes well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import FrameLocator, Page, Request, sync_playwright

from tests.browser.conftest import FLAGS, ROOT, find_chromium
from tests.servers import answers, free_ports

HOSTILE = "<img src=x onerror=top.hacked=1>"
#: A line with two tokens that are markup.
SHOW = f"""\
import numpy as np, gpt2viz
attention = np.tril(np.ones((2, 3, 6, 6))) / np.arange(1, 7)[:, None]
view = gpt2viz.show(attention, ["a", {HOSTILE!r}, "</script>", "d", "e", "f"])
view"""
READ = "print('read', view.selected)"
CLICKED = "read Selected(layer=0, head=0, query=4, key=2)"
#: Where a cell of the large head is on its canvas: query 4, key 2.
_CELL = """
({ look: { boxes: [{ x, y, cw, ch }] } }) => ({ x: x + 2.5 * cw, y: y + 4.5 * ch })
"""


@contextmanager
def served(
    command: Sequence[str], folder: Path, ready: str, environment: Mapping[str, str]
) -> Iterator[str]:
    """A notebook's server over a folder, with this clone's gpt2viz in its kernels: its address.

    ``command`` has "{port}" for the port; the path ``ready`` answers once the server does. Raises
    ``RuntimeError`` where it doesn't.
    """
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    told = [part.format(port=port) for part in command]
    alone = os.environ | {"PYTHONPATH": str(ROOT), **environment}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(told, cwd=folder, env=alone, stdout=log, stderr=log)
        try:
            if not answers(address, ready):
                raise RuntimeError((folder / "log").read_text())
            yield address
        finally:
            process.terminate()
            process.wait(60)


def click(notebook: Page | FrameLocator) -> FrameLocator:
    """Click the cell in the frame that a notebook shows, once it is drawn; no token is markup."""
    frame = notebook.frame_locator("iframe[name^=gpt2viz-]")
    large = frame.locator(".tiles[aria-label]")
    large.wait_for(timeout=60_000)
    large.page.wait_for_timeout(2000)  # anywidget's own script comes after the frame
    large.locator("canvas").click(position=large.evaluate(_CELL))
    assert frame.locator("img").count() == 0
    return frame


def check(read: Callable[[Page, Path], str], wanted: str = CLICKED) -> None:
    """Print what is ``read`` on a page, with a folder to work in, and fail where it isn't the cell.

    Also where a token's text has run, or our frame has asked anybody for anything; whom the
    notebook itself asks is printed. Pictures of the page go to the paths on the command line.
    """
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": 1300})
        asked: list[str] = []
        by_us: list[str] = []

        def note(request: Request) -> None:
            asked.append(request.url)
            if not request.is_navigation_request() and request.frame.name.startswith("gpt2viz-"):
                by_us.append(request.url)

        page.on("request", note)
        found = read(page, Path(name))
        for target in sys.argv[1:]:
            page.screenshot(path=target)
        assert page.evaluate("window.hacked") is None
        browser.close()
    ours = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "about:")
    print(found, *(f"asked for {url:.200}" for url in asked if not url.startswith(ours)), sep="\n")
    assert by_us == []
    assert found == wanted
