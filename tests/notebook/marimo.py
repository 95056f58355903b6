"""Click a cell in a real marimo, and read in another cell what was clicked.

pip install marimo 'gpt2viz[widget]'; python -m tests.notebook.marimo [picture.png]

Not among the tests, which don't install marimo. They check what it asks for in
tests/notebook/test_clicks.py, the frame in tests/browser/test_export.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import indent

from playwright.sync_api import Page

from tests.notebook.real import READ, SHOW, check, click, served

#: The last cell reads ``picked``, so that marimo runs it again after each click.
NOTEBOOK = f"""\
import marimo

app = marimo.App()


@app.cell
def _():
{indent(SHOW, "    ")}
    return (view,)


@app.cell
def _(view):
    import marimo
    picked = marimo.ui.anywidget(view.clicks)
    return (picked,)


@app.cell
def _(picked, view):
    picked.value
    {READ}
    return
"""


def read(page: Page, folder: Path) -> str:
    """Show the attention, click one cell of it, and read: what the kernel prints by itself."""
    (folder / "clicks.py").write_text(NOTEBOOK, encoding="utf-8")
    command = [sys.executable, "-m", "marimo", "edit", "clicks.py", "--headless", "--no-token"]
    command += ["--skip-update-check", "--host", "127.0.0.1", "--port", "{port}"]
    alone = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}  # nobody's settings
    with served(command, folder, "health", alone) as address:
        page.goto(address)
        page.locator(".cm-content").first.click(timeout=60_000)
        page.keyboard.press("Control+Shift+r")  # runs all cells
        click(page)
        printed = page.get_by_text("read Selected(")
        printed.wait_for(timeout=20_000)
        return printed.inner_text().strip()


if __name__ == "__main__":
    check(read)
