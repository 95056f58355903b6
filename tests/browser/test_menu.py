"""The menu: every page in one calm row, by mouse and by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from gpt2viz.app.pages import MENU
from tests.browser.conftest import act, open_from_menu, settle
from tests.browser.test_browser import Visit

ENTRIES = ".st-key-menu :is([data-testid='stPopoverButton'], [data-testid='stPageLink-NavLink'])"


@pytest.mark.parametrize("width", [1000, 2560])
def test_the_menu_is_one_row(walk: Visit, width: int) -> None:
    page = walk("side_by_side", width=width)
    boxes = [box for entry in page.locator(ENTRIES).all() if (box := entry.bounding_box())]
    assert len(boxes) == len(MENU) + 5  # Words, Numbers, Save, Share and the tour
    tops = {round(box["y"] / 10) for box in boxes}
    assert len(tops) == 1


def test_a_page_is_opened_by_keyboard_alone(walk: Visit) -> None:
    page = walk("head", text="Dog bites man", layer=1)
    here = page.locator(".st-key-menu a[aria-current='page']").filter(visible=True)
    expect(here).to_have_text("Head")
    here.focus()
    page.keyboard.press("Tab")
    expect(page.locator(".st-key-menu a:focus")).to_have_text("Side by side")
    page.keyboard.press("Enter")
    page.wait_for_url("**/side_by_side?*text=Dog+bites+man*")
    settle(page)
    expect(here).to_have_text("Side by side")


@pytest.mark.parametrize("key", ["words_panel", "numbers", "save", "share", "examples"])
def test_a_link_is_followed_from_what_stands_open(walk: Visit, key: str) -> None:
    page = walk("", text="Dog bites man")
    page.locator(f".st-key-{key} button").first.click()
    body = page.locator(f".st-key-{key}_body")
    expect(body).to_be_visible()
    settle(page)
    act(page, lambda: open_from_menu(page, "Shapes"))
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    expect(body).to_be_hidden()
    act(page, lambda: page.locator(f".st-key-{key} button").first.click())
    expect(body).to_be_visible()


def test_the_numbers_of_a_picture_are_a_table(walk: Visit) -> None:
    page = walk("", text="Dog bites man")
    page.locator(".st-key-numbers button").filter(visible=True).click()
    expect(page.get_by_text("9 numbers, one per row")).to_be_visible()  # a head of 3 by 3
    expect(page.get_by_test_id("stPopoverBody").get_by_test_id("stDataFrame")).to_be_visible()


# What has the focus, by the first of these that it lies in.
_REGIONS: tuple[str, ...] = (
    ".st-key-menu",
    ".st-key-sentence",
    ".st-key-model",
    ".st-key-causal",
    ".st-key-tokens",
    ".st-key-heads",
    ".st-key-choices",
    ".st-key-head_large",
    "a[href^='glossary?']",
)


def test_tab_goes_from_the_menu_over_sentence_and_choices_to_the_pictures(walk: Visit) -> None:
    page = walk("", text="Dog bites man")
    where = f"() => {list(_REGIONS)}.findIndex(region => document.activeElement.closest(region))"
    page.locator(".st-key-menu a").first.focus()
    seen = [0]
    while seen[-1] != len(_REGIONS) - 1 and len(seen) < 80:
        page.keyboard.press("Tab")
        seen.append(page.evaluate(where))
    found = [region for region in seen if region >= 0]
    assert found == sorted(found)
    assert set(found) == set(range(len(_REGIONS)))
