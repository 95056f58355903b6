"""Dragging over a picture shows that part of the text on every picture, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Browser, Page, expect

import gpt2viz
from tests.app.pages import SHADE
from tests.browser.conftest import settle
from tests.browser.test_browser import PLACE, click_cell, drawn, picture
from tests.bundled import N_HEAD

TEXT = "x " * 200


@pytest.fixture
def page(browser: Browser, more_models: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1440, "height": 1400})
    page.goto(f"{more_models}/?model=long&layer=0&head=0&text={TEXT.replace(' ', '+')}")
    settle(page)
    yield page
    page.close()


def drag(page: Page, key: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag from one (row, column) to another in the first panel of a container."""
    plot = picture(page, key)
    plot.scroll_into_view_if_needed()
    ends = [plot.evaluate(PLACE, [0, *place]) for place in (start, end)]
    page.mouse.move(*ends[0])
    page.mouse.down()
    page.mouse.move(*ends[1], steps=6)
    page.mouse.up()
    page.wait_for_timeout(500)
    settle(page)


def window(page: Page) -> list[int]:
    return [int(n) for n in page.url.split("zoom=")[1].split("&")[0].replace("%2C", ",").split(",")]


def test_a_drag_shows_that_part_and_a_button_the_whole(
    page: Page, folders: dict[str, Path]
) -> None:
    expected = gpt2viz.trace(gpt2viz.load_model(folders["long"]), TEXT).stage("weights", 0)[0]
    assert expected.shape[1] == 400
    drag(page, "head_large", (128.2, 64.2), (191.8, 127.8))  # of 256 blocks for 400 tokens
    top, bottom, left, right = window(page)
    assert abs(top - 200) <= 5
    assert abs(bottom - 300) <= 5
    assert abs(left - 100) <= 5
    assert abs(right - 200) <= 5
    part = drawn(page, "head_large")[0]
    assert_allclose(part["z"], expected[0, top:bottom, left:right], rtol=1e-4, atol=1e-7)
    assert [len(one["z"]) for one in drawn(page, "heads")] == [40] * 4, "the map is of all"
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


SHORT = "The cat sat on the mat and the cat sat"


def shake(page: Page, key: str, place: tuple[int, int]) -> None:
    """Click a (row, column) in the first panel of a container with a hand that isn't steady."""
    plot = picture(page, key)
    plot.scroll_into_view_if_needed()
    x, y = plot.evaluate(PLACE, [0, *place])
    page.mouse.move(x, y)
    page.wait_for_timeout(200)
    page.mouse.down()
    page.mouse.move(x + 4, y + 4)
    page.mouse.up()
    page.wait_for_timeout(300)
    settle(page)


def test_a_part_of_a_short_text_says_what_it_is_and_leads_back(walk: Callable[..., Page]) -> None:
    page = walk("", text=SHORT, layer=1, head=4)
    expected = gpt2viz.trace(gpt2viz.load_model(), SHORT).stage("weights", 1)[0]
    shake(page, "head_large", (6, 4))
    assert "zoom" not in page.url
    assert "query=6" in page.url

    drag(page, "head_large", (5.7, 3.7), (8.3, 6.3))
    assert window(page) == [6, 9, 4, 7]
    assert_allclose(drawn(page, "head_large")[0]["z"], expected[4, 6:9, 4:7], rtol=1e-5)
    layer = drawn(page, "heads")[N_HEAD : 2 * N_HEAD]
    assert_allclose([one["z"] for one in layer], expected, atol=SHADE)
    part = "queries 6 to 8, keys 4 to 6"
    titled = "view => view.look.boxes[0].title.at(-1)"
    assert picture(page, "head_large").evaluate(titled) == part
    expect(page.get_by_role("application", name=f"layer 1, head 4, {part}.")).to_be_visible()
    expect(page.get_by_text("Only a part is shown")).to_be_visible()
    page.get_by_role("button", name="Show the whole text").click()
    page.wait_for_timeout(300)
    settle(page)
    assert "zoom" not in page.url
    assert_allclose(drawn(page, "head_large")[0]["z"], expected[4], rtol=1e-5, atol=1e-7)


def test_a_part_of_two_runs_is_the_same_part(walk: Callable[..., Page]) -> None:
    page = walk("side_by_side", differs="mask", text=SHORT, layer=1, head=4)
    shake(page, "both_sides", (6, 4))
    assert "zoom" not in page.url
    assert "query=6" in page.url
    drag(page, "both_sides", (5.7, 3.7), (8.3, 6.3))
    assert window(page) == [6, 9, 4, 7]
    for key in ("mask", "both_sides", "difference"):
        shown = drawn(page, key)
        assert {np.shape(one["z"]) for one in shown} == {(3, 3)}
        assert {one["part"][0] for one in shown} == {"queries 6 to 8, keys 4 to 6"}
    without = gpt2viz.trace(gpt2viz.load_model(), SHORT, causal=False).stage("weights", 1, 4)
    assert_allclose(drawn(page, "both_sides")[1]["z"], without[6:9, 4:7], rtol=1e-5)

    drag(page, "both_sides", (-0.4, -0.4), (0.1, 0.1))  # only one cell
    page.get_by_role("textbox", name="Sentence").fill(f"{SHORT} on")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    settle(page)
    assert "zoom" not in page.url, "a part of one text is no part of the next"


def test_dragging_over_queries_shows_their_rows(walk: Callable[..., Page]) -> None:
    page = walk("head", text=SHORT, layer=1, head=4)
    drag(page, "stages", (1.7, 3), (4.3, 9))
    assert window(page) == [2, 5, 0, 10]


def test_nothing_lies_over_a_picture_under_the_pointer(walk: Callable[..., Page]) -> None:
    page = walk("head", text=SHORT)
    for column in range(10):  # every cell of the first row of the raw scores takes a click
        click_cell(page, "stages", row=0, column=column, chart=3)
        assert f"key={column}" in page.url
    page = walk("predict", text=SHORT)
    plots = page.locator(".js-plotly-plot:visible").all()
    assert plots
    for plot in plots:
        plot.hover(force=True)
        assert page.locator(".modebar-btn").count() == 0
