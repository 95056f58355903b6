"""Click a cell in a real JupyterLab, and read in the kernel what was clicked.

pip install jupyterlab 'gpt2viz[widget]'; python -m tests.notebook.jupyterlab

Not a test of pytest's, as JupyterLab is large. Tests check its parts: the messages from the page to
the kernel in tests/notebook/test_clicks.py, the frame in tests/browser/test_export.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from playwright.sync_api import Page, Request, expect, sync_playwright

from tests.browser.conftest import FLAGS, ROOT, find_chromium
from tests.servers import comes_up, free_ports

HOSTILE = "<img src=x onerror=top.hacked=1>"
#: A cell that shows tokens with markup, and one that reads the click.
CELLS = (
    f"""\
import numpy as np, gpt2viz
attention = np.tril(np.ones((2, 3, 6, 6))) / np.arange(1, 7)[:, None]
view = gpt2viz.show(attention, ["a", {HOSTILE!r}, "</script>", "d", "e", "f"])
view""",
    "print('read', view.selected)",
)
CLICKED = "read Selected(layer=0, head=0, query=4, key=2)"
#: Where a cell of the large head is on its canvas: query 4, key 2.
_CELL = """
({ look: { boxes: [{ x, y, cw, ch }] } }) => ({ x: x + 2.5 * cw, y: y + 4.5 * ch })
"""


def read(page: Page, address: str) -> str:
    """Show the attention, click one cell of it, and return what the kernel prints."""
    page.goto(f"{address}/lab/tree/clicks.ipynb")
    page.locator(".jp-Cell .cm-content").first.click(timeout=60_000)
    idle = page.locator(".jp-Notebook-ExecutionIndicator")
    expect(idle).to_have_attribute("data-status", "idle", timeout=60_000)
    page.keyboard.press("Shift+Enter")
    frame = page.frame_locator("iframe[name^=gpt2viz-]")
    large = frame.locator(".tiles[aria-label]")
    large.wait_for(timeout=60_000)
    page.wait_for_timeout(2000)  # anywidget's own script comes after the frame
    large.locator("canvas").click(position=large.evaluate(_CELL))
    assert frame.locator("img").count() == 0
    page.locator(".jp-Cell .cm-content").nth(1).click()
    page.keyboard.press("Shift+Enter")
    printed = page.locator(".jp-OutputArea-output pre", has_text="read ")
    printed.wait_for(timeout=20_000)
    return printed.inner_text().strip()


def main(folder: Path) -> None:
    """Fail if another cell is read, a token's markup runs, or our frame makes a request."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, folder / "clicks.ipynb")
    (port,) = free_ports(1)
    options = {"ip": "127.0.0.1", "port": port, "open_browser": False, "allow_root": True}
    options |= {"root_dir": str(folder), "port_retries": 0}
    command = [sys.executable, "-m", "jupyterlab", "--IdentityProvider.token="]
    command += [f"--ServerApp.{name}={value}" for name, value in options.items()]
    alone = {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(folder / "config")}
    requests: list[str] = []

    def note(request: Request) -> None:
        if not request.is_navigation_request() and request.frame.name.startswith("gpt2viz-"):
            requests.append(request.url)

    with (
        subprocess.Popen(command, cwd=folder, env=os.environ | alone) as server,
        sync_playwright() as playwright,
    ):
        try:
            assert comes_up(f"http://127.0.0.1:{port}", "api")
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1440, "height": 1300})
            page.on("request", note)
            assert read(page, f"http://127.0.0.1:{port}") == CLICKED
            assert page.evaluate("window.hacked") is None
            assert requests == []
            browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        main(Path(work))
