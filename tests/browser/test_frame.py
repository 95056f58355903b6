"""The frame: how little room it takes, the strip of tokens, light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from gpt2viz.app import pages
from tests.browser.conftest import reach, settle
from tests.browser.test_browser import Visit

LONG = "When Mary and John went to the garden, John gave the flower to Mary"


def bottom(page: Page, part: str) -> float:
    box = page.locator(part).first.bounding_box()
    assert box
    return box["y"] + box["height"]


@pytest.mark.parametrize("page_of", [pages.ATTENTION, pages.SHAPES], ids=lambda page: page.name)
def test_the_frame_is_slim(walk: Visit, page_of: pages.Page) -> None:
    """Menu, sentence and tokens together."""
    page = walk(page_of.address)
    assert bottom(page, ".st-key-tokens") <= 120
    page.set_viewport_size({"width": 1000, "height": 800})
    page.wait_for_timeout(300)
    assert bottom(page, ".st-key-tokens") <= 160
    page = walk(page_of.address, width=1000, text=LONG)
    assert bottom(page, ".st-key-tokens") <= 160


def test_the_tokens_of_a_long_text_are_one_line_that_scrolls(walk: Visit) -> None:
    page = walk("", width=1000, text=f"{LONG}. {LONG}.", query=20)
    chips = page.locator(".st-key-tokens [role=radio]")
    tops = {round(box["y"]) for chip in chips.all() if (box := chip.bounding_box())}
    assert len(tops) == 1
    strip = page.locator(".st-key-tokens [role=radiogroup]")
    assert strip.evaluate("strip => strip.scrollWidth > strip.clientWidth")
    expect(chips.nth(20)).to_be_in_viewport()  # the chosen one, which isn't among the first
    chips.last.focus()
    expect(chips.last).to_be_in_viewport()


def test_a_chip_tells_its_position_and_id_when_it_is_pointed_at(walk: Visit) -> None:
    page = walk()
    chip = page.get_by_role("radio", name="·ate position 2, id 538")
    told = chip.get_by_text("position 2, id 538")

    def height() -> float:
        box = told.bounding_box()
        assert box
        return box["height"]

    assert height() < 5
    chip.hover()
    assert height() > 10
    page.mouse.move(700, 700)
    assert height() < 5
    chip.focus()
    page.keyboard.press("ArrowLeft")  # a pointer's focus shows nothing, the keyboard's does
    page.keyboard.press("ArrowRight")
    assert height() > 10


def test_what_is_chosen_moves_nothing_and_what_opens_is_seen(walk: Visit) -> None:
    """And what has the focus looks unlike the open page, in a menu that is told as one."""
    for width in (1000, 1440):
        page = walk("", width=width, text=LONG)
        before = bottom(page, ".st-key-next")
        page.locator(".st-key-tokens [role=radio]").nth(6).click()
        settle(page)
        assert bottom(page, ".st-key-next") == before
    shown = page.locator(".st-key-show input")
    page.keyboard.press("Escape")
    assert shown.evaluate("one => one.scrollWidth <= one.clientWidth")
    page.get_by_role("button", name="These numbers as a table").click()
    rows = page.get_by_test_id("stPopoverBody")
    expect(rows.get_by_test_id("stDataFrame")).to_be_visible()
    page.wait_for_timeout(500)
    box = rows.bounding_box()
    assert box
    assert 0 < box["y"] < box["y"] + box["height"] <= 900
    assert box["height"] > 300
    page.keyboard.press("Escape")
    menu = page.get_by_role("navigation", name="Pages")
    other = menu.get_by_role("link", name="Head", exact=True)
    page.get_by_role("textbox", name="Sentence", exact=True).focus()
    reach(page, other)
    assert other.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    fills = [
        link.evaluate("one => getComputedStyle(one).backgroundColor")
        for link in (other, menu.locator("[aria-current]").first)
    ]
    assert fills[0] != fills[1]


def test_the_scores_of_a_head_stand_in_a_row_alike(walk: Visit) -> None:
    page = walk("head", text=" ".join(["unbelievable fishermen"] * 20))
    boxes = page.locator(".st-key-pairs .tiles").evaluate_all(
        """views => views.slice(0, 3).map(view => {
          const { y, w } = view.look.boxes[0]
          return [view.getBoundingClientRect().top + y, w]
        })"""
    )
    for side in zip(*boxes, strict=True):
        assert max(side) - min(side) < 4


def test_dark_and_light_stay_from_page_to_page_and_over_a_reload(visit: Visit) -> None:
    page = visit("shapes", text="Dog bites man", layer=1)
    app = page.locator(".stApp")
    light, dark = "rgb(255, 255, 255)", "rgb(18, 20, 28)"
    expect(app).to_have_css("background-color", light)
    page.locator(".st-key-theme button").filter(visible=True).click()
    expect(app).to_have_css("background-color", dark)
    settle(page)
    assert "text=Dog" in page.url
    assert "layer=1" in page.url
    for address in ("", "side_by_side", "head"):
        page.goto(f"{page.url.rpartition('/')[0]}/{address}?text=Dog+bites+man")
        settle(page)
        expect(app).to_have_css("background-color", dark)
        expect(page.get_by_role("button", name="Light page")).to_be_visible()
    page.locator(".st-key-theme button").filter(visible=True).click()
    expect(app).to_have_css("background-color", light)
