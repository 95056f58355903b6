"""The canvas of small matrices, alone on an empty page: each cell has its number's colour."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Browser, Page

from gpt2viz import files
from gpt2viz.pictures import canvas
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from tests.pictures.test_svg import colors, shade

_OPEN = """
async ([css, html, code, message, width]) => {
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }))
  const { default: draw } = await import(url)
  document.body.innerHTML = `<style>:root { --st-primary-color: #3550c8 } ${css}</style>
    <div id="here" style="width: ${width}px">${html}</div>`
  draw({ parentElement: document.getElementById("here"), setTriggerValue: () => {},
    data: Uint8Array.from(atob(message), (char) => char.charCodeAt(0)) })
}
"""

# The colour just inside the top left corner of every cell, clear of its number and frames.
_PAINTED = """
() => {
  const view = document.querySelector(".tiles"), canvas = view.querySelector("canvas")
  const pen = canvas.getContext("2d"), at = (low, n, side) =>
    Math.round((low + (n + .15) * side) * devicePixelRatio)
  return view.look.boxes.map(({ x, y, cw, ch }, n) =>
    view.p.panels[n].rows.map((_, row) => view.p.panels[n].columns.map((_, column) =>
      [...pen.getImageData(at(x, column, cw), at(y, row, ch), 1, 1).data].slice(0, 3))))
}
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    yield page
    page.close()
    # Chromium gives that advice because this test reads pixels.
    assert [text for text in problems if "willReadFrequently" not in text] == []


def panels(values: np.ndarray, masked: np.ndarray | None = None) -> list[Panel]:
    rows, columns = (
        [f"{side}{n}" for n in range(size)]
        for side, size in zip("qk", values.shape[1:], strict=True)
    )
    return [
        Panel(f"Head {n}", head, Axis("query", rows), Axis("key", columns), str(n), masked=masked)
        for n, head in enumerate(values)
    ]


def message(of: list[Panel], **more: Any) -> str:
    header = canvas.header(Heatmaps("what", of, n_columns=2, **more), LIGHT)
    header |= {"alt": "Two heads.", "tallest": 200, "chooses": True, "drags": True, "asks": []}
    return base64.b64encode(canvas.encode(header, of)).decode()


def show(page: Page, of: list[Panel], **more: Any) -> None:
    module = f"export default (() => {{ {files.script('tiles')} }})()"
    parts = [files.asset("style.css"), files.elements("tiles")]
    page.evaluate(_OPEN, [*parts, module, message(of, **more), 600])


def painted(page: Page) -> np.ndarray:
    return np.array(page.evaluate(_PAINTED), float)


def test_cells_have_the_colours_of_their_numbers(page: Page) -> None:
    values = np.random.default_rng(0).random((3, 8, 8), np.float32)
    show(page, panels(values), numbers=8, bar="attention weight", row=2)
    assert_allclose(painted(page), colors(values, LIGHT.unit), atol=2)


def test_signed_masked_and_non_finite_numbers_have_their_colours(page: Page) -> None:
    values = np.random.default_rng(1).normal(size=(1, 6, 6)).astype(np.float32)
    values[0, 0, 1], values[0, 2, 3], values[0, 3, 3] = np.nan, np.inf, -np.inf
    masked = np.triu(np.ones((6, 6), bool), 3)
    values[0, 0, 5] = np.nan  # masked too
    show(page, panels(values, masked), scale="signed", numbers=6)
    high = np.abs(values[np.isfinite(values)]).max()
    expected = colors(np.nan_to_num(values[0]) / high / 2 + 0.5, LIGHT.signed)
    row, column = np.indices((6, 6))
    expected[masked & ((row + column) % 2 == 0)] = shade(LIGHT.masked)
    expected[masked & ((row + column) % 2 == 1)] = shade(LIGHT.masked_other)
    expected[np.isnan(values[0])] = shade(LIGHT.nan)
    expected[np.isinf(values[0]) & ~masked] = shade(LIGHT.infinite)
    assert_allclose(painted(page)[0], expected, atol=2)
