"""The Textbook in a real browser: editing a number, clicking the diagram, every chapter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from gpt2viz.ui.textbook.contents import CHAPTERS
from tests.browser.conftest import settle

Visit = Callable[..., Page]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_opens_without_a_complaint(visit: Visit, chapter: str) -> None:
    page = visit("textbook", chapter=chapter)
    expect(page.get_by_role("heading", name=CHAPTERS[chapter].title).first).to_be_visible()
    assert page.locator(".katex-error").count() == 0


def edit(page: Page, column: int, typed: str) -> None:
    """Type a number into the table of the crane's query: one row of two numbers."""
    grid = page.get_by_test_id("stDataFrame").first
    box = grid.bounding_box()
    assert box
    page.mouse.click(box["x"] + (0.45, 0.85)[column] * box["width"], box["y"] + 52)
    page.keyboard.press("Enter")
    page.locator(".gdg-input").wait_for()
    page.wait_for_timeout(500)  # the cell takes keys a moment after it shows
    page.keyboard.press("Control+A")
    page.keyboard.type(typed, delay=50)
    page.keyboard.press("Enter")
    page.locator(".gdg-input").wait_for(state="detached")
    page.wait_for_function(f"location.search.includes('{typed}.0')")
    settle(page)


def test_edited_numbers_are_followed_and_stay_in_the_link(visit: Visit) -> None:
    page = visit("textbook", chapter="crane")
    page.wait_for_timeout(1000)  # the tables' own code loads late
    edit(page, 0, "3")
    edit(page, 1, "2")
    assert "crane_q=3.0%2C2.0" in page.url
    scores = page.locator(".katex-mathml").first  # keys .7 .7, .9 .1 and .9 .1
    expect(scores).to_contain_text("3.5000")
    expect(scores).to_contain_text("2.9000")
    page.reload()
    settle(page)
    expect(scores).to_contain_text("3.5000")
    page.get_by_role("button", name="Back to the first numbers").click()
    page.wait_for_function("!location.search.includes('crane_q')")
    expect(scores).to_contain_text("0.9800")


def test_a_click_on_the_diagram_opens_the_page_of_the_tensor(visit: Visit) -> None:
    page = visit("textbook", chapter="whole", layer=2)
    page.get_by_role("button", name="attn.attend.weights").click()
    page.wait_for_url("**/inside_head*")
    settle(page)
    assert "layer=2" in page.url
    page.go_back()
    settle(page)
    page.get_by_role("button", name="mlp.c_fc").click()
    page.wait_for_url("**/shapes*filter=h.2.mlp.c_fc*")


def test_a_link_goes_to_an_example(visit: Visit) -> None:
    page = visit("textbook", example="E22")
    expect(page.get_by_role("heading", name="Attention by hand")).to_be_attached()
    expect(page.locator("#E22")).to_be_in_viewport(timeout=20_000)
