"""The frame and its words: menu, sentence, strip of tokens, light and dark, tips, the tour."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from gpt2viz.app import pages
from gpt2viz.app.pages import MENU
from gpt2viz.app.terms import TERM
from tests.browser.conftest import act, open_from_menu, reach, settle, wait_until
from tests.browser.test_browser import Visit

LONG = "When Mary and John went to the garden, John gave the flower to Mary"


def bottom(page: Page, part: str) -> float:
    box = page.locator(part).first.bounding_box()
    assert box
    return box["y"] + box["height"]


@pytest.mark.parametrize("page_of", [pages.HEAD, pages.SHAPES], ids=lambda page: page.name)
def test_the_frame_is_slim(walk: Visit, page_of: pages.Page) -> None:
    """Menu, sentence and tokens together."""
    page = walk(page_of.address)
    assert bottom(page, ".st-key-tokens") <= 120
    page.set_viewport_size({"width": 1000, "height": 800})
    wait_until(page, lambda: bottom(page, ".st-key-tokens") <= 160)
    page = walk(page_of.address, width=1000, text=LONG)
    assert bottom(page, ".st-key-tokens") <= 160


def test_the_tokens_of_a_long_text_are_one_line_that_scrolls(walk: Visit) -> None:
    page = walk("head", width=1000, text=f"{LONG}. {LONG}.", query=20)
    chips = page.locator(".st-key-token_chips [role=radio]")
    tops = {round(box["y"]) for chip in chips.all() if (box := chip.bounding_box())}
    assert len(tops) == 1
    strip = page.locator(".st-key-token_chips [role=radiogroup]")
    assert strip.evaluate("strip => strip.scrollWidth > strip.clientWidth")
    expect(chips.nth(20)).to_be_in_viewport()  # the chosen one, which isn't among the first
    chips.last.focus()
    expect(chips.last).to_be_in_viewport()


def test_the_token_that_a_first_visit_chooses_can_be_left(walk: Visit) -> None:
    page = walk("", text=None)
    chip = page.locator(".st-key-token_chips [role=radio]").last
    expect(chip).to_be_checked()
    act(page, chip.click)
    expect(chip).not_to_be_checked()


def test_a_chip_tells_its_position_and_id_when_it_is_pointed_at(walk: Visit) -> None:
    page = walk()
    chip = page.get_by_role("radio", name="ate position 2, id 538")
    told = chip.get_by_text("position 2, id 538")

    def height() -> float:
        box = told.bounding_box()
        assert box
        return box["height"]

    assert height() < 5
    chip.hover()
    wait_until(page, lambda: height() > 10)
    page.mouse.move(700, 700)
    wait_until(page, lambda: height() < 5)
    chip.focus()
    page.keyboard.press("ArrowLeft")  # a pointer's focus shows nothing, the keyboard's does
    page.keyboard.press("ArrowRight")
    wait_until(page, lambda: height() > 10)


def test_what_is_chosen_moves_nothing_and_what_opens_is_seen(walk: Visit) -> None:
    """And what has the focus looks unlike the open page, in a menu that is told as one."""
    for width in (1000, 1440):
        page = walk("", width=width, text=LONG)
        before = bottom(page, ".st-key-one_head")
        page.locator(".st-key-token_chips [role=radio]").nth(6).click()
        settle(page)
        assert bottom(page, ".st-key-one_head") == before
    shown = page.locator(".st-key-show input")
    page.keyboard.press("Escape")
    assert shown.evaluate("one => one.scrollWidth <= one.clientWidth")
    page.get_by_role("button", name="These numbers as a table").click()
    rows = page.get_by_test_id("stPopoverBody")
    expect(rows.get_by_test_id("stDataFrame")).to_be_visible()

    def in_sight() -> bool:  # it opens by and by
        box = rows.bounding_box()
        return bool(
            box and 0 < box["y"] and box["y"] + box["height"] <= 900 and box["height"] > 300
        )

    wait_until(page, in_sight)
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
    page.goto(f"{page.url.rpartition('/')[0]}/head?text=Dog+bites+man")
    settle(page)
    expect(app).to_have_css("background-color", dark)
    expect(page.get_by_role("button", name="Light")).to_be_visible()
    page.locator(".st-key-theme button").filter(visible=True).click()
    expect(app).to_have_css("background-color", light)


ENTRIES = ".st-key-menu :is([data-testid='stPopoverButton'], [data-testid='stPageLink-NavLink'])"


def test_the_menu_is_one_row(walk: Visit) -> None:
    page = walk("side_by_side", width=1000)
    for width in (1000, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        boxes = [box for entry in page.locator(ENTRIES).all() if (box := entry.bounding_box())]
        assert len(boxes) == len(MENU) + 5  # Words, Numbers, Save, Share and the tour
        names = [box for name in page.locator(f"{ENTRIES} p").all() if (box := name.bounding_box())]
        narrow = width == 1000  # only the tour has its name beside its icon
        assert sum(box["width"] > 1 for box in names) == len(MENU) + (1 if narrow else 5)
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


@pytest.mark.parametrize("key", ["words_panel", "save", "examples"])
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
    ".st-key-purpose",
    ".st-key-as_words",
    ".st-key-heads",
    ".st-key-below",
    ".st-key-choices",
    ".st-key-head_large",
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


def test_a_tip_never_lies_on_what_its_button_opened(walk: Callable[..., Page]) -> None:
    page = walk()
    tip = page.locator("[role=tooltip]")
    for name in ("Words", "Numbers", "Save"):
        button = page.locator(".st-key-menu").get_by_role("button", name=name, exact=False)
        button.hover()
        expect(tip).to_be_visible()  # it does have one
        button.click()
        settle(page)
        page.mouse.move(700, 850)
        expect(tip).to_have_count(0)
        button.hover()
        expect(tip).to_have_count(1)
        expect(tip).to_be_hidden()
        page.keyboard.press("Escape")
        page.mouse.move(700, 850)
        expect(tip).to_have_count(0)


def test_the_box_shows_a_text_of_several_lines(walk: Callable[..., Page]) -> None:
    page = walk(text="a\nb\r\nc")
    box = page.get_by_role("textbox", name="Sentence")
    assert box.input_value().splitlines() == ["a", "b", "c"]
    assert r"\n" in page.locator(".st-key-token_chips [role=radiogroup]").inner_text()
    box.fill("a b")
    act(page, lambda: box.press("Control+Enter"))
    assert page.locator("input[aria-label=Sentence]").input_value() == "a b"
    assert r"\n" not in page.locator(".st-key-token_chips [role=radiogroup]").inner_text()


def test_chips_that_choose_nothing_can_be_read_and_not_pressed(walk: Callable[..., Page]) -> None:
    for dark in (False, True):
        page = walk("shapes", query=1, dark=dark)
        chips = page.locator(".st-key-token_chips [role=radio]")
        assert chips.count() == 4
        assert all(chip.is_disabled() for chip in chips.all())
        ink = page.locator(".st-key-examples, .stApp").first.evaluate(
            "e => getComputedStyle(e).color"
        )
        for part in ("[role=radio] > span", "p"):
            look = "e => [getComputedStyle(e).color, getComputedStyle(e).opacity]"
            for found in page.locator(f".st-key-tokens {part}").all():
                assert found.evaluate(look) == [ink, "1"]


def test_the_tour_goes_through_the_app_and_can_be_left(walk: Callable[..., Page]) -> None:
    page = walk()
    page.get_by_role("button", name="Take the tour", exact=True).click()
    tour = page.locator(".st-key-tour")

    def is_at(n: int, path: str) -> None:
        page.wait_for_function(f"location.search.includes('tour={n}')")
        settle(page)
        assert page.url.partition("?")[0].endswith(path)
        assert ("key=3" in page.url) == (n == 3)
        expect(page.get_by_text(f"{n} of 6")).to_be_visible()

    for n, path in ((2, "/"), (3, "/head"), (4, "/side_by_side")):
        tour.get_by_text("Next", exact=True).click()
        is_at(n, path)
    tour.get_by_text("Back", exact=True).click()
    is_at(3, "/head")
    for n, path in ((4, "/side_by_side"), (3, "/head")):
        page.go_back()  # the browser's own: page and parameters belong together
        is_at(n, path)
    act(page, page.get_by_role("button", name="Leave the tour").click)
    assert "tour=" not in page.url
    expect(page.get_by_text(" of 6")).to_have_count(0)
    page.get_by_role("button", name="Words", exact=True).click()
    expect(page.get_by_text("Elsewhere: ").first).to_be_visible()


def test_a_tip_stays_open_and_its_words_lead_to_the_glossary(walk: Callable[..., Page]) -> None:
    page = walk("head", text="Dog bites man")
    page.locator(".st-key-tokens [data-testid='stTooltipHoverTarget']").first.hover()
    word = page.locator("[data-testid='stTooltipContent'] a", has_text="head")
    word.hover()  # once it no longer moves
    page.wait_for_timeout(500)  # longer than a tip stays without the pointer
    with page.context.expect_page() as opened:
        word.click()
    expect(opened.value.locator(".st-key-term_head")).to_contain_text(TERM["head"].meaning[:20])
    assert "text=Dog" in opened.value.url
