"""Click a cell in a real JupyterLab, and read in the kernel what was clicked.

pip install jupyterlab 'gpt2viz[widget]'; python -m tests.notebook.jupyterlab [picture.png]

Not among the tests: JupyterLab is large. They check what it does here in parts, the messages from
the page to the kernel in tests/notebook/test_clicks.py, the frame in tests/browser/test_export.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from playwright.sync_api import Page, expect

from tests.notebook.real import READ, SHOW, check, click, served


def write(path: Path, *cells: str) -> None:
    """A notebook of these cells."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, path)


def run_next(page: Page) -> None:
    """Run the cell that has the focus, and go to the next one."""
    page.keyboard.press("Shift+Enter")


def read(page: Page, folder: Path) -> str:
    """Show the attention, click one cell of it, and read: what the kernel prints."""
    write(folder / "clicks.ipynb", SHOW, READ)
    options = {"ip": "127.0.0.1", "port": "{port}", "open_browser": False, "allow_root": True}
    options |= {"root_dir": str(folder), "port_retries": 0}
    command = [sys.executable, "-m", "jupyterlab", "--IdentityProvider.token="]
    command += [f"--ServerApp.{name}={value}" for name, value in options.items()]
    alone = {"JUPYTER_CONFIG_DIR": str(folder / "config")}
    with served(command, folder, "api", alone) as address:
        page.goto(f"{address}/lab/tree/clicks.ipynb")
        page.locator(".jp-Cell .cm-content").first.click(timeout=60_000)
        expect(page.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute(
            "data-status", "idle", timeout=60_000
        )
        run_next(page)
        click(page)
        page.locator(".jp-Cell .cm-content").nth(1).click()
        run_next(page)
        printed = page.locator(".jp-OutputArea-output pre", has_text="read ")
        printed.wait_for(timeout=20_000)
        return printed.inner_text().strip()


if __name__ == "__main__":
    check(read)
