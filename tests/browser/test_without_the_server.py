"""The browser chooses among numbers that it has: no message goes to the server, and what is
drawn is what an independent GPT-2 computes; the server hears of it with whatever is asked next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Page, expect

from tests.browser.conftest import Reader, Visitor, act, settle
from tests.browser.test_browser import MIDDLE, drawn, picture
from tests.browser.test_lines import lines
from tests.browser.test_save import open_save
from tests.browser.test_zoom import drag
from tests.bundled import CATS as TEXT
from tests.bundled import CRANE, N_HEAD, weights


class FirstScreen(Reader):
    """A visitor of the first screen."""

    def head(self, layer: int, head: int) -> None:
        self.page.mouse.click(
            *picture(self.page, "heads").evaluate(MIDDLE, [layer * N_HEAD + head, 0, 0])
        )
        self.page.mouse.move(0, 0)

    def row(self, row: int) -> None:
        self.page.mouse.click(*picture(self.page, "head_large").evaluate(MIDDLE, [0, row, 1]))
        self.page.mouse.move(0, 0)

    def lines(self) -> dict[tuple[int, int], float]:
        """Every line at rest, by its ends."""
        result = lines(self.page, "rest")
        return {(int(line["query"]), int(line["key"])): line["width"] for line in result}

    def frame(self) -> Any:
        return picture(self.page, "head_large").evaluate("view => view.p.panels[0].frame")


@pytest.fixture
def reader(walk: Callable[..., Page], staying: list[Visitor]) -> FirstScreen:
    return FirstScreen(walk, staying)


@pytest.fixture(scope="module")
def expected() -> Any:
    return weights(TEXT)


def large(reader: FirstScreen) -> np.ndarray:
    return np.array(drawn(reader.page, "head_large")[0]["z"])


def agree(results: dict[tuple[int, int], float], expected: np.ndarray) -> None:
    assert results.keys() == set(zip(*np.nonzero(expected >= 0.01), strict=True))
    for ends, width in results.items():
        assert width == pytest.approx(0.6 + 6.4 * expected[ends], abs=1e-4)


def test_heads_rows_parts_and_lines_are_chosen_without_the_server(
    reader: FirstScreen, expected: Any
) -> None:
    page = reader.open(text=TEXT, layer=0, head=1)

    reader.head(2, 5)
    assert_allclose(large(reader), expected[2][5], rtol=2e-3, atol=2e-3)
    assert "layer=2&head=5" in page.url
    expect(page.get_by_text("Layer 2 · Head 5")).to_have_count(0)  # it is on the canvas
    expect(page.locator(".st-key-head_large .description")).to_contain_text("Head 2.5")

    reader.row(6)
    assert "query=6" in page.url
    assert reader.frame() == [6, 6, 0, 9]
    row = expected[2][5][6]
    most = int(row.argmax())
    expect(page.locator(".st-key-head_large .description")).to_contain_text(f"({row[most]:.2f})")
    assert picture(page, "heads").evaluate("view => view.p.token") == 6
    chip = page.locator(".st-key-token_chips [role=radio]").nth(6)
    expect(chip).to_have_attribute("aria-checked", "true")

    drag(page, "head_large", (4.7, 1.7), (8.3, 6.3))
    assert_allclose(large(reader), expected[2][5][5:9, 2:7], rtol=2e-3, atol=2e-3)
    assert reader.frame() == [1, 1, 0, 4]
    reader.head(3, 0)
    assert_allclose(large(reader), expected[3][0][5:9, 2:7], rtol=2e-3, atol=2e-3)

    page.get_by_role("radio", name="Lines").click()
    agree(reader.lines(), expected[3][0][5:9, 2:7])
    page.get_by_role("button", name="Show the whole text").click()
    agree(reader.lines(), expected[3][0])
    page.get_by_role("group", name="More heads").get_by_role("button", name="4").click()
    expect(page.locator(".rows g.rest path[data-source='1']")).to_have_count(
        int((expected[3][4] >= 0.01).sum())
    )
    page.locator(".st-key-head_large .rows .q").nth(3).click()
    assert "query=3" in page.url
    expect(chip).to_have_attribute("aria-checked", "false")
    page.get_by_role("radio", name="Matrix").click()
    assert_allclose(large(reader), expected[3][0], rtol=2e-3, atol=2e-3)
    chip.click()
    assert reader.frame() == [6, 6, 0, 9]
    chip.click()
    assert reader.frame() is None
    assert "query" not in page.url
    assert reader.sent() == 0, "the server was asked"


def test_the_server_hears_of_it_with_whatever_is_asked_next(
    reader: FirstScreen, expected: Any
) -> None:
    page = reader.open(text=TEXT)
    reader.head(1, 3)
    drag(page, "head_large", (4.7, 1.7), (8.3, 6.3))
    reader.sent()
    open_save(page, "Picture")
    assert reader.sent() == 2  # the address, and what was pressed
    names = page.get_by_role("combobox", name="Picture")
    part = "queries 5 to 8, keys 2 to 6"
    expect(names).to_have_value(f"Attention weights, layer 1, head 3, {part}")
    page.keyboard.press("Escape")
    settle(page)
    assert_allclose(large(reader), expected[1][3][5:9, 2:7], rtol=2e-3, atol=2e-3)
    expect(page.get_by_role("application", name=f"layer 1, head 3, {part}.")).to_be_visible()

    reader.head(0, 2)
    page.get_by_role("button", name="Look inside this head").click()
    page.wait_for_url("**/head?*")
    settle(page)
    assert "layer=0" in page.url
    assert "head=2" in page.url
    inside = next(panel for panel in drawn(page, "stages") if panel["name"] == "weights")
    assert_allclose(inside["z"], expected[0][2][5:9, 2:7], rtol=2e-3, atol=2e-3)


def maps_that_wait(page: Page) -> int:
    """The number of maps that wait for the window's size to change; tips of buttons do as well."""
    session = page.context.new_cdp_session(page)
    window = {"expression": "window", "objectGroup": "window"}  # without a group no handlers come
    of_window = {"objectId": session.send("Runtime.evaluate", window)["result"]["objectId"]}
    waiting = session.send("DOMDebugger.getEventListeners", of_window)["listeners"]
    session.detach()
    handlers = [listener.get("handler", {}).get("description") for listener in waiting]
    return handlers.count("() => sized(view)")


def test_links_lead_on_with_it_and_what_is_left_behind_is_freed(reader: FirstScreen) -> None:
    page = reader.open(text=TEXT, edits="off:0.0", what_if="depends")
    assert maps_that_wait(page) == 1
    reader.head(1, 3)
    page.get_by_role("link", name="Head", exact=True).click()
    page.wait_for_url("**/head?*")
    settle(page)
    assert {"layer=1", "head=3"} <= set(page.url.partition("?")[2].split("&"))
    act(page, page.go_back)
    page.wait_for_url("**/?*")
    assert picture(page, "heads").evaluate("view => view.p.chosen") == N_HEAD + 3
    assert maps_that_wait(page) == 1
    reader.head(2, 5)
    page.get_by_role("link", name="Go on in What if").click()  # the menu's are completed otherwise
    page.wait_for_url("**/what_if?*")
    assert {"layer=2", "head=5", "what_if=edits"} <= set(page.url.partition("?")[2].split("&"))


def test_back_and_forward_go_through_what_was_chosen(reader: FirstScreen, expected: Any) -> None:
    """To what the address says nothing of, too."""
    page = reader.open(text=TEXT)
    first, opening = large(reader), picture(page, "heads").evaluate("view => view.p.chosen")
    reader.row(4)
    reader.head(1, 3)
    page.get_by_role("radio", name="Lines").click()
    matrix = page.get_by_role("radio", name="Matrix")
    act(page, page.go_back)
    expect(matrix).to_have_attribute("aria-checked", "true")
    assert_allclose(large(reader), expected[1][3], rtol=2e-3, atol=2e-3)
    for _ in range(2):
        act(page, page.go_back)
    assert "query" not in page.url
    assert_allclose(large(reader), first)
    assert reader.frame() is None
    assert picture(page, "heads").evaluate("view => [view.p.chosen, view.p.token]") == [opening, -1]
    expect(page.locator(".st-key-tokens [aria-checked=true]")).to_have_count(0)
    for _ in range(2):
        act(page, page.go_forward)
    assert_allclose(large(reader), expected[1][3], rtol=2e-3, atol=2e-3)
    chosen = picture(page, "heads").evaluate("view => [view.p.chosen, view.p.token]")
    assert chosen == [N_HEAD + 3, 4]


@pytest.mark.parametrize(
    "more", [{"causal": "false"}, {"words": "true"}, {"show": "norms"}], ids=str
)
def test_what_the_browser_has_not_the_server_is_asked_for(
    reader: FirstScreen, more: dict[str, str]
) -> None:
    reader.open(text=TEXT, layer=0, head=1, **more)
    reader.row(4)
    assert reader.sent() == 1
    assert "query=4" in reader.page.url
    assert reader.frame()[:2] == [4, 4]
    expect(reader.page.locator(".st-key-head_large .description")).to_contain_text("·the")


def test_keys_choose_here_and_who_hears_the_page_is_told_all(
    reader: FirstScreen, expected: Any
) -> None:
    page = reader.open(text=TEXT, layer=0, head=1)
    page.locator(".st-key-heads .map").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "layer=1&head=2" in page.url.replace("head=2&layer=1", "layer=1&head=2")
    assert_allclose(large(reader), expected[1][2], rtol=2e-3, atol=2e-3)
    assert reader.sent() == 0
    page.get_by_role("radio", name="Matrix").focus()
    page.keyboard.press("Tab")  # to the large picture, whose numbers are then told in words
    settle(page)
    largest = f"largest {expected[1][2].max():.3g}"
    expect(page.get_by_role("application", name=largest)).to_have_count(1)
    # The next sentence is read with the head that was chosen here.
    page.get_by_role("textbox", name="Sentence").fill(CRANE)
    page.keyboard.press("Enter")
    page.wait_for_url("**text=A+crane*")
    settle(page)
    assert_allclose(large(reader), weights(CRANE)[1, 2], rtol=2e-3, atol=2e-3)
