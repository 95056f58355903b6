"""The frame and its words: menu, sentence, strip of tokens, light and dark, tips, the tour."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from gpt2viz.app.pages import MENU
from gpt2viz.app.terms import TERM
from tests.browser.conftest import act, box_of, open_from_menu, reach, settle, wait_until
from tests.browser.test_browser import Visit

LONG = "When Mary and John went to the garden, John gave the flower to Mary"


def bottom(page: Page, part: str) -> float:
    box = box_of(page.locator(part).first)
    return box["y"] + box["height"]


def test_the_frame_is_slim(walk: Visit) -> None:
    """Menu, sentence and tokens together."""
    page = walk("head")
    assert bottom(page, ".st-key-tokens") <= 120
    for width, named in ((1000, 1), (2560, 5)):
        page.set_viewport_size({"width": width, "height": 800})
        settle(page)
        boxes = [box for entry in page.locator(ENTRIES).all() if (box := entry.bounding_box())]
        assert len(boxes) == len(MENU) + 5  # Words, Numbers, Save, Share and the tour
        names = [box for name in page.locator(f"{ENTRIES} p").all() if (box := name.bounding_box())]
        # Only the tour has its name beside its icon where there is little room.
        assert sum(box["width"] > 1 for box in names) == len(MENU) + named
        assert len({round(box["y"] / 10) for box in boxes}) == 1
        assert bottom(page, ".st-key-tokens") <= 160
    page = walk("head", width=1000, text=LONG)
    assert bottom(page, ".st-key-tokens") <= 160


ENTRIES = ".st-key-menu :is([data-testid='stPopoverButton'], [data-testid='stPageLink-NavLink'])"


def test_the_token_that_a_first_visit_chooses_can_be_left(walk: Visit) -> None:
    """And a chip tells its position and id when it is pointed at."""
    page = walk("", text=None)
    chips = page.locator(".st-key-token_chips [role=radio]")
    expect(chips.last).to_be_checked()
    act(page, chips.last.click)
    expect(chips.last).not_to_be_checked()

    message = chips.nth(2).get_by_text(re.compile(r"position 2, id \d+"))
    assert box_of(message)["height"] < 5
    chips.nth(2).hover()
    wait_until(page, lambda: box_of(message)["height"] > 10)
    page.mouse.move(700, 700)
    wait_until(page, lambda: box_of(message)["height"] < 5)
    chips.nth(2).focus()
    page.keyboard.press("ArrowLeft")  # a pointer's focus shows nothing, the keyboard's does
    page.keyboard.press("ArrowRight")
    wait_until(page, lambda: box_of(message)["height"] > 10)


def test_what_is_chosen_moves_nothing_and_what_opens_is_seen(walk: Visit) -> None:
    """And what has the focus looks unlike the open page, in a menu that is told as one."""
    page = walk("", width=1000, text=LONG)
    for width, token in ((1000, 6), (1440, 7)):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        before = bottom(page, ".st-key-one_head")
        page.locator(".st-key-token_chips [role=radio]").nth(token).click()
        settle(page)
        assert bottom(page, ".st-key-one_head") == before
    shown = page.locator(".st-key-show input")
    page.keyboard.press("Escape")
    assert shown.evaluate("input => input.scrollWidth <= input.clientWidth")
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
    assert other.evaluate("link => getComputedStyle(link).outlineStyle") == "solid"
    fills = [
        link.evaluate("link => getComputedStyle(link).backgroundColor")
        for link in (other, menu.locator("[aria-current]").first)
    ]
    assert fills[0] != fills[1]


def test_the_scores_of_a_head_stand_in_a_row_alike(walk: Visit) -> None:
    for width, text in ((1440, " unbelievable fishermen" * 20), (1280, "Lily had a red, red ball")):
        page = walk("head", width, text=text)
        boxes = page.locator(".st-key-score_pairs .tiles").evaluate_all(
            """views => views.slice(0, 3).map(view =>
              [view.getBoundingClientRect().top + view.look.boxes[0].y, view.look.boxes[0].w])"""
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


def test_the_first_pages_link_leads_there_from_a_page_that_draws_nothing(walk: Visit) -> None:
    page = walk("shapes", text="")
    act(page, page.get_by_text("Causal mask").click)
    first = page.locator(".st-key-menu a").first
    expect(first).to_have_attribute("href", "./?text=&causal=false")


def test_a_link_is_followed_from_what_stands_open(walk: Visit) -> None:
    page = walk("", text="Dog bites man")
    for key, name in (("words_panel", "Shapes"), ("save", "Head"), ("examples", "Shapes")):
        page.locator(f".st-key-{key} button").first.click()
        body = page.locator(f".st-key-{key}_body")
        expect(body).to_be_visible()
        settle(page)
        act(page, lambda name=name: open_from_menu(page, name))  # type: ignore[misc]
        expect(page.locator(".st-key-menu [aria-current]").first).to_have_text(name)
        expect(body).to_be_hidden()
        act(page, page.locator(f".st-key-{key} button").first.click)
        expect(body).to_be_visible()
        settle(page)  # and the keyboard is in what has opened
        page.keyboard.press("Escape")
        expect(body).to_be_hidden()


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
    results = [region for region in seen if region >= 0]
    assert results == sorted(results)
    assert set(results) == set(range(len(_REGIONS)))


def test_a_tip_never_lies_on_what_its_button_opened(walk: Callable[..., Page]) -> None:
    page = walk()
    tip = page.locator("[role=tooltip]")
    for name in ("Words", "Numbers", "Save"):
        button = page.locator(".st-key-menu").get_by_role("button", name=name, exact=False)
        button.hover()
        expect(tip).to_be_visible()  # it does have one
        button.click()
        settle(page)
        if name == "Numbers":
            opened = page.get_by_test_id("stPopoverBody")
            expect(opened.get_by_text("16 numbers, one per row")).to_be_visible()  # of 4 tokens
            expect(opened.get_by_test_id("stDataFrame")).to_be_visible()
        page.mouse.move(700, 850)
        expect(tip).to_have_count(0)
        button.hover()
        expect(tip).to_have_count(1)
        expect(tip).to_be_hidden()
        page.keyboard.press("Escape")
        page.mouse.move(700, 850)
        expect(tip).to_have_count(0)
        button.press("Enter")
        settle(page)
        page.keyboard.press("Escape")  # the focus goes back to the button
        expect(page.get_by_test_id("stPopoverBody")).to_have_count(0)
        expect(tip).to_have_count(1)
        expect(tip).to_be_hidden()
        page.keyboard.press("Escape")


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

    for name, n, path in (("Next", 2, "/"), ("Next", 3, "/head"), ("Back", 2, "/")):
        tour.get_by_text(name, exact=True).click()
        is_at(n, path)
    page.go_back()  # the browser's own: page and parameters belong together
    is_at(3, "/head")
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
