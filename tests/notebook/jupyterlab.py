"""Click a cell in a real JupyterLab, and read in the kernel what was clicked.

pip install jupyterlab 'gpt2viz[widget]'; python -m tests.notebook.jupyterlab [picture.png]

Not among the tests: JupyterLab is large. They check what it does here in parts, the messages from
the page to the kernel in tests/notebook/test_clicks.py, the frame in tests/browser/test_export.py.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from urllib.request import urlopen

import nbformat
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import FLAGS, ROOT, find_chromium

HOSTILE = "<img src=x onerror=top.hacked=1>"
#: A line with two tokens that are markup, and what is clicked of it.
SHOW = f"""\
import numpy as np, gpt2viz
attention = np.tril(np.ones((2, 3, 6, 6))) / np.arange(1, 7)[:, None]
view = gpt2viz.show(attention, ["a", {HOSTILE!r}, "</script>", "d", "e", "f"])
view"""
READ = "print('read', view.selected)"
#: Where a cell of the large head is on the page: query 4, key 2.
CELL = """
() => {
  const view = document.querySelector(".tiles"), { x, y, cw, ch } = view.look.boxes[0]
  const at = view.canvas.getBoundingClientRect()
  return [at.x + x + 2.5 * cw, at.y + y + 4.5 * ch]
}
"""


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """JupyterLab over a folder, with this clone's gpt2viz in its kernels: its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"ip": "127.0.0.1", "port": port, "open_browser": False, "allow_root": True}
    options |= {"root_dir": str(folder), "port_retries": 0}
    command = [sys.executable, "-m", "jupyterlab", "--IdentityProvider.token="]
    command += [f"--ServerApp.{name}={value}" for name, value in options.items()]
    alone = os.environ | {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(folder / "config")}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=alone, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/api")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def wait_for(address: str) -> None:
    """Until a server answers. Raises ``TimeoutError`` after a minute."""
    for _ in range(120):
        try:
            urlopen(address, timeout=1).close()  # noqa: S310 (our own)
            return
        except OSError:
            sleep(0.5)
    raise TimeoutError(address)


def write(path: Path, *cells: str) -> None:
    """A notebook of these cells."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, path)


def run_next(page: Page) -> None:
    """Run the cell that has the focus, and go to the next one."""
    page.keyboard.press("Shift+Enter")


def click_and_read(page: Page, address: str) -> str:
    """Show the attention, click one cell of it, and read: what the kernel prints."""
    page.goto(f"{address}/lab/tree/clicks.ipynb")
    page.locator(".jp-Cell .cm-content").first.click(timeout=60_000)
    expect(page.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute(
        "data-status", "idle", timeout=60_000
    )
    run_next(page)
    frame = page.frame_locator("iframe[name^=gpt2viz-]")
    frame.locator(".tiles[aria-label]").wait_for(timeout=60_000)
    child = next(one for one in page.frames if one.name.startswith("gpt2viz-"))
    box = page.locator("iframe[name^=gpt2viz-]").bounding_box()
    assert box
    x, y = child.evaluate(CELL)
    page.mouse.click(box["x"] + x, box["y"] + y)
    assert child.locator("img").count() == 0  # a token is no markup
    page.wait_for_timeout(2000)  # anywidget's own script comes after the frame
    page.locator(".jp-Cell .cm-content").nth(1).click()
    run_next(page)
    read = page.locator(".jp-OutputArea-output pre", has_text="read ")
    read.wait_for(timeout=20_000)
    return read.inner_text().strip()


def main() -> None:
    """Print what was read, and fail where that isn't the cell, or a token's text has run."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        write(folder / "clicks.ipynb", SHOW, READ)
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": 1300})
        with jupyterlab(folder) as address:
            read = click_and_read(page, address)
            for target in sys.argv[1:]:
                page.screenshot(path=target)
            assert page.evaluate("window.hacked") is None
        browser.close()
    print(read)
    assert read == "read Selected(layer=0, head=0, query=4, key=2)", read


if __name__ == "__main__":
    main()
