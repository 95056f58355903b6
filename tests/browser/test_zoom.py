"""Dragging over a picture of a long text shows that part of it on every picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Browser, Page, expect

import gpt2viz
from tests.browser.conftest import running_app, settle
from tests.browser.test_browser import PLACE, drawn, picture
from tests.checkpoints import write_checkpoint

TEXT = "x " * 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "long"
    write_checkpoint(folder, n_positions=400, n_layer=1)
    return folder


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Page]:
    with running_app(GPT2VIZ_MODELS=str(folder)) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 1400})
        page.goto(f"{address}/?model=long&text={TEXT.replace(' ', '+')}")
        settle(page)
        yield page
        page.close()


def drag(page: Page, key: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag from one (row, column) to another in the first panel of a container."""
    plot = picture(page, key)
    ends = [plot.evaluate(PLACE, [0, *place]) for place in (start, end)]
    page.mouse.move(*ends[0])
    page.mouse.down()
    page.mouse.move(*ends[1], steps=6)
    page.mouse.up()
    page.wait_for_timeout(500)
    settle(page)


def window(page: Page) -> list[int]:
    return [int(n) for n in page.url.split("zoom=")[1].split("&")[0].replace("%2C", ",").split(",")]


def test_a_drag_shows_that_part_and_a_button_the_whole(page: Page, folder: Path) -> None:
    expected = gpt2viz.trace(gpt2viz.load_model(folder), TEXT).stage("weights", 0)[0]
    assert expected.shape[1] == 400
    drag(page, "head_large", (128.2, 64.2), (191.8, 127.8))  # of 256 blocks for 400 tokens
    top, bottom, left, right = window(page)
    assert abs(top - 200) <= 5
    assert abs(bottom - 300) <= 5
    assert abs(left - 100) <= 5
    assert abs(right - 200) <= 5
    part = drawn(page, "head_large")[0]
    assert_allclose(part["z"], expected[0, top:bottom, left:right], rtol=1e-4, atol=1e-7)
    assert len(drawn(page, "heads")) == 4
    assert picture(page, "head_large").evaluate("view => view.range.slice(0, 2)") == [
        0,
        bottom - top,
    ]

    drag(page, "head_large", (10.2, 20.2), (29.8, 39.8))
    closer = window(page)
    assert abs(closer[0] - top - 10) <= 2
    assert abs(closer[1] - top - 30) <= 2
    finest = drawn(page, "head_large")[0]
    rows, columns = slice(*closer[:2]), slice(*closer[2:])
    assert_allclose(finest["z"], expected[0, rows, columns], rtol=1e-4, atol=1e-7)

    page.get_by_role("button", name="Show the whole text").click()
    page.wait_for_timeout(300)
    settle(page)
    assert "zoom" not in page.url
    assert len(drawn(page, "head_large")[0]["z"]) == 256
    expect(page.get_by_text("Drag over a picture")).to_be_visible()
