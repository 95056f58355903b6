"""Dragging over a picture zooms every picture to that part of the text, and says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Page, expect

import gpt2viz
from gpt2viz.run.stages import HEAD_STAGES
from tests.app.pages import SHADE
from tests.browser.conftest import CountedTab, act, settle, wait_until
from tests.browser.test_browser import MIDDLE, click_cell, panels, picture
from tests.bundled import CATS as SHORT
from tests.bundled import N_HEAD, bundled_model


def drag(
    page: Page, key: str, start: tuple[float, float], end: tuple[float, float], chart: int = 0
) -> None:
    """Drag from one (row, column) to another in the first panel of a container's n-th picture."""
    plot = picture(page, key, chart)
    plot.scroll_into_view_if_needed()
    ends = [plot.evaluate(MIDDLE, [0, *cell]) for cell in (start, end)]
    page.mouse.move(*ends[0])
    page.mouse.down()
    page.mouse.move(*ends[1], steps=6)
    act(page, lambda: page.mouse.up())


def window(page: Page) -> list[int]:
    return [int(n) for n in page.url.split("zoom=")[1].split("&")[0].replace("%2C", ",").split(",")]


def shaky_click(page: Page, key: str, cell: tuple[int, int]) -> None:
    """Click a (row, column) in a container's first panel while moving by a few pixels."""
    plot = picture(page, key)
    plot.scroll_into_view_if_needed()
    x, y = plot.evaluate(MIDDLE, [0, *cell])
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 4, y + 4)
    act(page, lambda: page.mouse.up())


def test_part_of_a_short_text_is_named_and_can_be_left(open_page: Callable[..., Page]) -> None:
    page = open_page("", text=SHORT, layer=1, head=4)
    expected = gpt2viz.trace(bundled_model(), SHORT).stage("weights", 1)[0]
    shaky_click(page, "head_large", (6, 4))
    assert "zoom" not in page.url
    assert "query=6" in page.url

    drag(page, "head_large", (5.7, 3.7), (8.3, 6.3))
    assert window(page) == [6, 9, 4, 7]
    assert_allclose(panels(page, "head_large")[0]["z"], expected[4, 6:9, 4:7], rtol=1e-5)
    layer = panels(page, "heads")[N_HEAD : 2 * N_HEAD]
    assert_allclose([panel["z"] for panel in layer], expected, atol=SHADE)
    part = "queries 6 to 8, keys 4 to 6"
    assert picture(page, "head_large").evaluate("view => view.look.boxes[0].title.at(-1)") == part
    expect(page.get_by_role("application", name=f"Head 4, {part}.")).to_be_visible()
    expect(page.get_by_text(f"Only a part is shown: {part} of 10 tokens.")).to_be_visible()
    page.get_by_role("button", name="Show the whole text").click()
    assert "zoom" not in page.url
    assert_allclose(panels(page, "head_large")[0]["z"], expected[4], rtol=1e-5, atol=1e-7)
    expect(page.get_by_text("Only a part is shown")).to_be_hidden()


#: The text, and the head that is shown.
SHOWN: dict[str, Any] = {"text": SHORT, "layer": 1, "head": 4}


def whole() -> dict[str, list[np.ndarray]]:
    """The matrices of the whole text in each container, by its page and key."""
    model = bundled_model()
    on = gpt2viz.trace(model, SHORT)
    weights = on.stage("weights", 1, 4)
    return {
        "head stages": [on.stage(stage, 1, 4) for stage in HEAD_STAGES],
        "what_if whatif": [weights, weights, weights - weights],
    }


def check_part(page: Page, key: str, expected: list[np.ndarray], part: tuple[slice, slice]) -> None:
    """Every matrix of a container is that part of its matrix of the whole text."""
    rows, columns = part
    result = panels(page, key)
    assert len(result) == len(expected)
    for panel, of_whole in zip(result, expected, strict=True):
        pairs = of_whole.shape == (10, 10)
        cells = of_whole[rows, columns] if pairs else of_whole[rows]
        assert_allclose(panel["z"], cells, rtol=1e-4, atol=1e-6)
        assert [name.split()[0] for name in panel["rows"]] == [str(n) for n in range(10)][rows]


WHOLE = slice(None), slice(None)


@pytest.mark.parametrize("container", whole())
def test_drag_needs_no_server_and_save_has_the_part(tab: CountedTab, container: str) -> None:
    expected = whole()[container]
    path, key = container.split(" ")
    page, chart = tab.open(path, **SHOWN), 3 if path == "head" else 0
    check_part(page, key, expected, WHOLE)
    drag(page, key, (5.7, 3.7), (8.3, 6.3), chart)
    assert window(page) == [6, 9, 4, 7]
    check_part(page, key, expected, (slice(6, 9), slice(4, 7)))
    drag(page, key, (0.7, -0.3), (2.3, 1.3), chart)  # within the current part
    assert window(page) == [7, 9, 4, 6]
    check_part(page, key, expected, (slice(7, 9), slice(4, 6)))
    expect(page.get_by_text("queries 7 to 8, keys 4 to 5 of 10 tokens.")).to_be_visible()
    act(page, page.get_by_role("button", name="Show the whole text").click)
    assert "zoom" not in page.url
    check_part(page, key, expected, WHOLE)
    drag(page, key, (5.7, 3.7), (8.3, 6.3), chart)
    assert tab.new_messages() == 0, "the server was asked"

    page.locator(".st-key-save button").first.click()
    expect(page.get_by_role("combobox", name="Picture")).to_have_value(re.compile("6 to 8"))
    assert tab.new_messages() > 0
    assert window(page) == [6, 9, 4, 7]
    check_part(page, key, expected, (slice(6, 9), slice(4, 7)))


def test_back_forward_and_reload_show_the_addresss_part(open_page: Callable[..., Page]) -> None:
    page, weights = open_page(**SHOWN), whole()["what_if whatif"][:1]
    first = slice(6, 9), slice(4, 7)
    drag(page, "head_large", (5.7, 3.7), (8.3, 6.3))
    drag(page, "head_large", (0.7, -0.3), (2.3, 1.3))
    for step, part in (
        (page.go_back, first),
        (page.go_back, WHOLE),
        (page.go_forward, first),
        (page.go_forward, (slice(7, 9), slice(4, 6))),
        (page.reload, (slice(7, 9), slice(4, 6))),
        (page.go_back, first),
    ):
        act(page, step)
        check_part(page, "head_large", weights, part)
    act(page, lambda: page.emulate_media(color_scheme="dark"))
    check_part(page, "head_large", weights, first)


def test_click_in_a_part_drawn_by_the_browser_hits_its_cell(open_page: Callable[..., Page]) -> None:
    page, weights = open_page("what_if", **SHOWN), whole()["what_if whatif"]
    drag(page, "whatif", (5.7, 3.7), (8.3, 6.3))
    click_cell(page, "whatif", row=2, column=1)
    wait_until(page, lambda: "edits=forbid" in page.url)
    settle(page)
    edited = panels(page, "whatif")[1]["z"]
    assert edited[2][1] == 0
    assert_allclose(edited[:2], weights[0][6:8, 4:7], rtol=1e-4)


def test_part_of_words_starts_and_ends_at_words(tab: CountedTab) -> None:
    page = tab.open(words="true", **SHOWN | {"text": "An unforgettable crane slept"})
    words = [name.split()[1] for name in panels(page, "head_large")[0]["rows"]]
    drag(page, "head_large", (0.7, -0.3), (2.3, 1.3))
    (panel,) = panels(page, "head_large")
    assert [name.split()[1] for name in panel["rows"]] == words[1:3]
    assert [name.split()[1] for name in panel["columns"]] == words[:2]
    first, stop, *_ = window(page)
    assert (first, stop - first > 2) == (1, True), "a word of several tokens"
    assert tab.new_messages() == 0, "the server was asked"


def test_click_and_one_axis_drag_hit_the_cells_under_the_pointer(
    open_page: Callable[..., Page],
) -> None:
    page = open_page("head", text=SHORT, layer=1, head=4)
    for column in (0, 9):  # nothing covers the ends of the first row of raw scores
        click_cell(page, "stages", row=0, column=column, chart=3)
        assert f"key={column}" in page.url
    drag(page, "stages", (1.7, 3), (4.3, 9))  # over queries only
    assert window(page) == [2, 5, 0, 10]
    click_cell(page, "stages", row=1, column=2, chart=3)
    assert "query=3" in page.url
    assert "key=2" in page.url
