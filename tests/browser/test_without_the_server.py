"""The browser chooses among numbers that it has without a message to the server, and draws what
an independent GPT-2 computes; the server learns of the choice with the next request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Page, expect

from tests.browser.conftest import CountedTab, Visitor, act, settle
from tests.browser.test_browser import MIDDLE, panels, picture
from tests.browser.test_lines import lines
from tests.browser.test_save import open_save
from tests.browser.test_zoom import drag
from tests.bundled import CATS as TEXT
from tests.bundled import CRANE, N_HEAD, weights


class FirstScreen(CountedTab):
    """The shared tab on the first screen."""

    def head(self, layer: int, head: int) -> None:
        self.page.mouse.click(
            *picture(self.page, "heads").evaluate(MIDDLE, [layer * N_HEAD + head, 0, 0])
        )
        self.page.mouse.move(0, 0)

    def row(self, row: int) -> None:
        self.page.mouse.click(*picture(self.page, "head_large").evaluate(MIDDLE, [0, row, 1]))
        self.page.mouse.move(0, 0)

    def lines(self) -> dict[tuple[int, int], float]:
        """The width of every line at rest, by query and key."""
        result = lines(self.page, "rest")
        return {(int(line["query"]), int(line["key"])): line["width"] for line in result}

    def frame(self) -> Any:
        return picture(self.page, "head_large").evaluate("view => view.p.panels[0].frame")


@pytest.fixture
def screen(open_page: Callable[..., Page], shared: list[Visitor]) -> FirstScreen:
    return FirstScreen(open_page, shared)


@pytest.fixture(scope="module")
def expected() -> Any:
    return weights(TEXT)


def large(screen: FirstScreen) -> np.ndarray:
    return np.array(panels(screen.page, "head_large")[0]["z"])


def check_lines(results: dict[tuple[int, int], float], expected: np.ndarray) -> None:
    assert results.keys() == set(zip(*np.nonzero(expected >= 0.01), strict=True))
    for ends, width in results.items():
        assert width == pytest.approx(0.6 + 6.4 * expected[ends], abs=1e-4)


def test_heads_rows_parts_and_lines_need_no_server(screen: FirstScreen, expected: Any) -> None:
    page = screen.open(text=TEXT, layer=0, head=1)

    screen.head(2, 5)
    assert_allclose(large(screen), expected[2][5], rtol=2e-3, atol=2e-3)
    assert "layer=2&head=5" in page.url
    expect(page.get_by_text("Layer 2 · Head 5")).to_have_count(0)  # that is drawn on the canvas
    expect(page.locator(".st-key-head_large .description")).to_contain_text("Head 2.5")

    screen.row(6)
    assert "query=6" in page.url
    assert screen.frame() == [6, 6, 0, 9]
    row = expected[2][5][6]
    most = int(row.argmax())
    expect(page.locator(".st-key-head_large .description")).to_contain_text(f": {row[most]:.2f}")
    assert picture(page, "heads").evaluate("view => view.p.token") == 6
    chip = page.locator(".st-key-token_chips [role=radio]").nth(6)
    expect(chip).to_have_attribute("aria-checked", "true")

    drag(page, "head_large", (4.7, 1.7), (8.3, 6.3))
    assert_allclose(large(screen), expected[2][5][5:9, 2:7], rtol=2e-3, atol=2e-3)
    assert screen.frame() == [1, 1, 0, 4]
    screen.head(3, 0)
    assert_allclose(large(screen), expected[3][0][5:9, 2:7], rtol=2e-3, atol=2e-3)

    page.get_by_role("radio", name="Lines").click()
    check_lines(screen.lines(), expected[3][0][5:9, 2:7])
    page.get_by_role("button", name="Show the whole text").click()
    check_lines(screen.lines(), expected[3][0])
    page.get_by_role("group", name="More heads").get_by_role("button", name="4").click()
    above = int((expected[3][4] >= 0.01).sum())
    expect(page.locator(".rows g.rest path[data-source='1']")).to_have_count(above)
    page.locator(".st-key-head_large .rows .q").nth(3).click()
    assert "query=3" in page.url
    expect(chip).to_have_attribute("aria-checked", "false")
    page.get_by_role("radio", name="Matrix").click()
    assert_allclose(large(screen), expected[3][0], rtol=2e-3, atol=2e-3)
    chip.click()
    assert screen.frame() == [6, 6, 0, 9]
    chip.click()
    assert screen.frame() is None
    assert "query" not in page.url
    assert screen.new_messages() == 0, "the server was asked"


def test_server_learns_of_choices_with_the_next_request(screen: FirstScreen, expected: Any) -> None:
    page = screen.open(text=TEXT)
    screen.head(1, 3)
    drag(page, "head_large", (4.7, 1.7), (8.3, 6.3))
    screen.new_messages()
    open_save(page, "Picture")
    assert screen.new_messages() == 2  # the address, and the press
    names = page.get_by_role("combobox", name="Picture")
    part = "queries 5 to 8, keys 2 to 6"
    expect(names).to_have_value(f"Attention weights, layer 1, head 3, {part}")
    page.keyboard.press("Escape")
    settle(page)
    assert_allclose(large(screen), expected[1][3][5:9, 2:7], rtol=2e-3, atol=2e-3)
    expect(page.get_by_role("application", name=f"layer 1, head 3, {part}.")).to_be_visible()

    screen.head(0, 2)
    page.get_by_role("button", name="Look inside this head").click()
    page.wait_for_url("**/head?*")
    settle(page)
    assert "layer=0" in page.url
    assert "head=2" in page.url
    inside = next(panel for panel in panels(page, "stages") if panel["name"] == "weights")
    assert_allclose(inside["z"], expected[0][2][5:9, 2:7], rtol=2e-3, atol=2e-3)


def n_resize_listeners(page: Page) -> int:
    """The number of maps that listen for resizes of the window, as tooltips also do."""
    session = page.context.new_cdp_session(page)
    window = {
        "expression": "window",
        "objectGroup": "window",
    }  # handlers are only listed with a group
    of_window = {"objectId": session.send("Runtime.evaluate", window)["result"]["objectId"]}
    waiting = session.send("DOMDebugger.getEventListeners", of_window)["listeners"]
    session.detach()
    handlers = [listener.get("handler", {}).get("description") for listener in waiting]
    return handlers.count("() => sized(view)")


def test_links_keep_choices_and_old_maps_are_freed(screen: FirstScreen) -> None:
    page = screen.open(text=TEXT, edits="off:0.0", what_if="depends")
    assert n_resize_listeners(page) == 1
    screen.head(1, 3)
    page.get_by_role("link", name="Head", exact=True).click()
    page.wait_for_url("**/head?*")
    settle(page)
    assert {"layer=1", "head=3"} <= set(page.url.partition("?")[2].split("&"))
    act(page, page.go_back)
    page.wait_for_url("**/?*")
    assert picture(page, "heads").evaluate("view => view.p.chosen") == N_HEAD + 3
    assert n_resize_listeners(page) == 1
    screen.head(2, 5)
    page.get_by_role(
        "link", name="Go on in What if"
    ).click()  # links of the menu are completed differently
    page.wait_for_url("**/what_if?*")
    assert {"layer=2", "head=5", "what_if=edits"} <= set(page.url.partition("?")[2].split("&"))


def test_back_and_forward_go_through_the_choices(screen: FirstScreen, expected: Any) -> None:
    """Also through those that the address doesn't contain."""
    page = screen.open(text=TEXT)
    first, opening = large(screen), picture(page, "heads").evaluate("view => view.p.chosen")
    screen.row(4)
    screen.head(1, 3)
    page.get_by_role("radio", name="Lines").click()
    matrix = page.get_by_role("radio", name="Matrix")
    act(page, page.go_back)
    expect(matrix).to_be_checked()
    assert_allclose(large(screen), expected[1][3], rtol=2e-3, atol=2e-3)
    for _ in range(2):
        act(page, page.go_back)
    assert "query" not in page.url
    assert_allclose(large(screen), first)
    assert screen.frame() is None
    assert picture(page, "heads").evaluate("view => [view.p.chosen, view.p.token]") == [opening, -1]
    expect(page.locator(".st-key-tokens [aria-checked=true]")).to_have_count(0)
    for _ in range(2):
        act(page, page.go_forward)
    assert_allclose(large(screen), expected[1][3], rtol=2e-3, atol=2e-3)
    chosen = picture(page, "heads").evaluate("view => [view.p.chosen, view.p.token]")
    assert chosen == [N_HEAD + 3, 4]


@pytest.mark.parametrize(
    "more", [{"causal": "false"}, {"words": "true"}, {"show": "norms"}], ids=str
)
def test_numbers_that_the_browser_lacks_are_requested(
    screen: FirstScreen, more: dict[str, str]
) -> None:
    screen.open(text=TEXT, layer=0, head=1, **more)
    screen.row(4)
    assert screen.new_messages() == 1
    assert "query=4" in screen.page.url
    assert screen.frame()[:2] == [4, 4]
    expect(screen.page.locator(".st-key-head_large .description")).to_contain_text("·the")


def test_keyboard_choices_are_announced(screen: FirstScreen, expected: Any) -> None:
    page = screen.open(text=TEXT, layer=0, head=1)
    page.locator(".st-key-heads .map").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "layer=1&head=2" in page.url.replace("head=2&layer=1", "layer=1&head=2")
    assert_allclose(large(screen), expected[1][2], rtol=2e-3, atol=2e-3)
    assert screen.new_messages() == 0
    page.get_by_role("radio", name="Matrix").focus()
    page.keyboard.press("Tab")  # to the large picture, whose numbers are then described
    settle(page)
    largest = f"largest {expected[1][2].max():.3g}"
    expect(page.get_by_role("application", name=largest)).to_have_count(1)
    # The next sentence keeps the chosen head.
    page.get_by_role("textbox", name="Sentence").fill(CRANE)
    page.keyboard.press("Enter")
    page.wait_for_url("**text=A+crane*")
    settle(page)
    assert_allclose(large(screen), weights(CRANE)[1, 2], rtol=2e-3, atol=2e-3)
