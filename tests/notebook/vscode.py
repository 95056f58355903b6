"""Open a notebook that was run before in a real VS Code, and click a cell there.

npm install --prefix FOLDER --ignore-scripts code-server
npm install --prefix FOLDER/node_modules/code-server/lib/vscode --ignore-scripts --omit=dev
CODE_SERVER=FOLDER/node_modules/.bin/code-server python -m tests.notebook.vscode [picture.png]

with the Node.js that code-server asks for. That is VS Code as a server, which shows what the file
holds with extensions of its own. Jupyter's, which runs cells, comes from a gallery, so that no
kernel hears the click. Not among the tests: VS Code is large. They check a frame within a frame in
tests/browser/test_export.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from playwright.sync_api import Page

from gpt2viz.pictures.palette import DARK, LIGHT, Palette
from tests.browser.conftest import ROOT
from tests.notebook.real import SHOW, check, click, served

#: VS Code's themes, and the colours that we have in them, whatever the system prefers.
THEMES: tuple[tuple[str, Palette], ...] = (("Light Modern", LIGHT), ("Dark Modern", DARK))
SETTINGS = {
    "chat.disableAIFeatures": True,
    "security.workspace.trust.enabled": False,
    "workbench.editorAssociations": {"*.ipynb": "jupyter-notebook"},
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
}
BOOK = "run.ipynb"
#: What is said of the cell that is clicked: of five tokens that are seen, each has a fifth.
SAID = "query 4 e, key 2 </script>, attention weight 0.2"
_PAINTED = """
view => {
  const [{ x, y, cw, ch }] = view.look.boxes, at = (n) => Math.floor(n * devicePixelRatio)
  const across = at(x + 2 * cw) + 6, down = at(y + 4 * ch) + 6
  return [...view.canvas.getContext("2d").getImageData(across, down, 1, 1).data.slice(0, 3)]
}
"""


def run(path: Path) -> None:
    """A notebook with what its one cell shows."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SHOW)])
    alone = os.environ | {"PYTHONPATH": str(ROOT)}
    NotebookClient(book, kernel_name="python3").execute(env=alone)
    nbformat.write(book, path)


def read(page: Page, folder: Path) -> str:
    """What is said of a cell under the pointer, in a light and in a dark theme."""
    run(folder / BOOK)
    settings = folder / "user" / "User" / "settings.json"
    settings.parent.mkdir(parents=True)
    command = [os.environ["CODE_SERVER"], "--auth=none", "--bind-addr=127.0.0.1:{port}"]
    command += ["--disable-telemetry", "--disable-update-check", f"--user-data-dir={folder}/user"]
    alone = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}  # nobody's settings
    with served([*command, str(folder)], folder, "healthz", alone) as address:
        page.emulate_media(color_scheme="null")
        for theme, colors in THEMES:
            settings.write_text(json.dumps(SETTINGS | {"workbench.colorTheme": theme}))
            page.goto(f"{address}/?folder={folder}")
            page.locator(".explorer-folders-view .monaco-list-row", has_text=BOOK).dblclick()
            output = page.frame_locator("iframe.webview.ready").frame_locator("#active-frame")
            frame = click(output)
            large = frame.locator(".tiles")
            assert frame.locator(".map").evaluate("view => view.p.token") == 4  # its row is lit
            assert large.evaluate(_PAINTED) == pytest.approx(color_of(0.2, colors), abs=2)
        return ", ".join(large.locator(".tip").inner_text().splitlines()[-3:])


def color_of(weight: float, colors: Palette) -> list[float]:
    """What a weight is painted in, red, green and blue."""
    stops, names = zip(*colors.unit, strict=True)
    channels = [[int(name[n : n + 2], 16) for name in names] for n in (1, 3, 5)]
    return [float(np.interp(weight, stops, one)) for one in channels]


if __name__ == "__main__":
    check(read, SAID)
