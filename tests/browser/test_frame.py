"""The frame and its words: menu, sentence, strip of tokens, light and dark, tips, the tour."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from gpt2viz.app.pages import MENU
from gpt2viz.app.terms import TERM
from tests.browser.conftest import act, box_of, open_from_menu, settle, tab_to, wait_until
from tests.browser.test_browser import Visit

LONG = "When Mary and John went to the garden, John gave the flower to Mary"


def bottom(page: Page, part: str) -> float:
    box = box_of(page.locator(part).first)
    return box["y"] + box["height"]


def test_frame_takes_little_height(open_page: Visit) -> None:
    """Menu, sentence and tokens are measured together."""
    page = open_page("head")
    assert bottom(page, ".st-key-tokens") <= 120
    for width, named in ((1000, 1), (2560, 5)):
        page.set_viewport_size({"width": width, "height": 800})
        settle(page)
        boxes = [box for entry in page.locator(ENTRIES).all() if (box := entry.bounding_box())]
        assert len(boxes) == len(MENU) + 5  # Words, Numbers, Save, Share and the tour
        names = [box for name in page.locator(f"{ENTRIES} p").all() if (box := name.bounding_box())]
        # In a narrow window only the tour shows its name beside its icon.
        assert sum(box["width"] > 1 for box in names) == len(MENU) + named
        assert len({round(box["y"] / 10) for box in boxes}) == 1
        assert bottom(page, ".st-key-tokens") <= 160
    page = open_page("head", width=1000, text=LONG)
    assert bottom(page, ".st-key-tokens") <= 160


ENTRIES = ".st-key-menu :is([data-testid='stPopoverButton'], [data-testid='stPageLink-NavLink'])"


def test_initial_token_can_be_unselected(open_page: Visit) -> None:
    """And a chip shows its position and id on hover and keyboard focus."""
    page = open_page("", text=None)
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
    page.keyboard.press("ArrowLeft")  # focus by pointer shows nothing, by keyboard it does
    page.keyboard.press("ArrowRight")
    wait_until(page, lambda: box_of(message)["height"] > 10)


def test_choices_move_nothing_and_popovers_are_in_view(open_page: Visit) -> None:
    """And the focused link of the menu, a landmark, looks different from the current page's."""
    page = open_page("", width=1000, text=LONG)
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

    def in_sight() -> bool:  # it opens gradually
        box = box_of(rows)
        return 0 < box["y"] <= 900 - box["height"] < 600

    wait_until(page, in_sight)
    page.keyboard.press("Escape")
    menu = page.get_by_role("navigation", name="Pages")
    other = menu.get_by_role("link", name="Head", exact=True)
    page.get_by_role("textbox", name="Sentence", exact=True).focus()
    tab_to(page, other)
    assert other.evaluate("link => getComputedStyle(link).outlineStyle") == "solid"
    fill = "link => getComputedStyle(link).backgroundColor"
    assert other.evaluate(fill) != menu.locator("[aria-current]").first.evaluate(fill)


def test_matrices_in_a_row_are_aligned_and_a_presented_table_fits(open_page: Visit) -> None:
    for width, text in ((1440, " unbelievable fishermen" * 20), (1280, None), (1920, None)):
        page = open_page("head", width, text=text, present=str(width == 1920).lower())
        boxes = page.locator(".st-key-score_pairs .tiles").evaluate_all(
            """views => views.slice(0, 3).map(view =>
              [view.getBoundingClientRect().top + view.look.boxes[0].y, view.look.boxes[0].w])"""
        )
        for side in zip(*boxes, strict=True):
            assert max(side) - min(side) < 4
    views = open_page("head", present="true").locator(".st-key-stages .tiles").all()
    tops = [round(box_of(view)["y"]) for view in views]
    assert len({*tops[:3]}) == len({*tops[6:]}) == 1, "however long their titles are"
    table = open_page("find", present="true").get_by_test_id("stDataFrame").first
    assert sum(box_of(table)[side] for side in ("x", "width")) < 1440


def test_presenting_enlarges_all_of_every_page(open_page: Visit) -> None:
    for path in ("textbook", "training", "shapes", "glossary", "models?part=modules"):
        page = open_page(path, present="true")
        last = page.get_by_test_id("stMainBlockContainer").locator("p:visible").last
        assert last.evaluate("part => part.currentCSSZoom") == 1.5, path
    arrow, module = (box_of(page.locator(f".flow {part}").last) for part in ("path", ".node"))
    assert abs(arrow["y"] + arrow["height"] - module["y"]) < 3, "an arrow ends at its box"


def test_theme_persists_across_pages_and_reloads(visit: Visit) -> None:
    page = visit("shapes", text="Dog bites man", layer=1)
    app, light, dark = page.locator(".stApp"), "rgb(255, 255, 255)", "rgb(18, 20, 28)"
    expect(app).to_have_css("background-color", light)
    page.locator(".st-key-theme button").filter(visible=True).click()
    expect(app).to_have_css("background-color", dark)
    settle(page)
    assert all(part in page.url for part in ("text=Dog", "layer=1"))
    page.goto(f"{page.url.rpartition('/')[0]}/head?text=Dog+bites+man")
    settle(page)
    expect(app).to_have_css("background-color", dark)
    expect(page.get_by_role("button", name="Light")).to_be_visible()
    page.locator(".st-key-theme button").filter(visible=True).click()
    expect(app).to_have_css("background-color", light)


def test_menu_opens_a_page_by_keyboard(open_page: Visit) -> None:
    page = open_page("head", text="Dog bites man", layer=1)
    current = page.locator(".st-key-menu a[aria-current='page']").filter(visible=True)
    expect(current).to_have_text("Head")
    current.press("Tab")
    expect(page.locator(".st-key-menu a:focus")).to_have_text("Side by side")
    page.keyboard.press("Enter")
    page.wait_for_url("**/side_by_side?*text=Dog+bites+man*")
    settle(page)
    expect(current).to_have_text("Side by side")


def test_first_pages_link_is_right_on_a_page_without_pictures(open_page: Visit) -> None:
    page = open_page("shapes", text="")
    act(page, page.get_by_text("Causal mask").click)
    expect(page.locator(".st-key-menu a").first).to_have_attribute("href", "./?text=&causal=false")


def test_menu_links_work_while_a_popover_is_open(open_page: Visit) -> None:
    page = open_page("", text="Dog bites man")
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
        settle(page)  # and the focus is in the popover
        page.keyboard.press("Escape")
        expect(body).to_be_hidden()


# The focused element is classified by the first of these that contains it.
_REGIONS = (
    *("menu", "sentence", "model", "causal", "purpose", "as_words", "heads", "below", "choices"),
    "head_large",
)


def test_tab_order_is_menu_sentence_choices_pictures(open_page: Visit) -> None:
    page = open_page("", text="Dog bites man")
    regions = [f".st-key-{name}" for name in _REGIONS]
    where = f"() => {regions}.findIndex(region => document.activeElement.closest(region))"
    page.locator(".st-key-menu a").first.focus()
    seen = [0]
    while seen[-1] != len(_REGIONS) - 1 and len(seen) < 80:
        page.keyboard.press("Tab")
        seen.append(page.evaluate(where))
    results = [region for region in seen if region >= 0]
    assert results == sorted(results)
    assert set(results) == set(range(len(_REGIONS)))


def test_tooltip_never_covers_its_buttons_popover(open_page: Callable[..., Page]) -> None:
    page = open_page()
    tip, popover = page.locator("[role=tooltip]"), page.get_by_test_id("stPopoverBody")
    for name in ("Words", "Numbers", "Save"):
        button = page.locator(".st-key-menu").get_by_role("button", name=name, exact=False)
        button.hover()
        expect(tip).to_be_visible()  # the button has one
        button.click()
        settle(page)
        if name == "Numbers":
            expect(popover.get_by_text("16 numbers, one per row")).to_be_visible()  # of 4 tokens
            expect(popover.get_by_test_id("stDataFrame")).to_be_visible()
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
        page.wait_for_function("document.activeElement.closest('[data-testid=stPopoverBody]')")
        page.keyboard.press("Escape")  # the focus goes back to the button
        expect(popover).to_have_count(0)
        expect(tip).to_have_count(1)
        expect(tip).to_be_hidden()
        page.keyboard.press("Escape")


def test_tour_leads_through_the_app_and_can_be_left(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.get_by_role("button", name="Take the tour", exact=True).click()
    tour = page.locator(".st-key-tour")

    def check_step(n: int, path: str) -> None:
        page.wait_for_function(f"location.search.includes('tour={n}')")
        settle(page)
        assert page.url.partition("?")[0].endswith(path)
        assert ("key=3" in page.url) == (n == 3)
        expect(page.get_by_text(f"{n} of 6")).to_be_visible()

    for name, n, path in (("Next", 2, "/"), ("Next", 3, "/head"), ("Back", 2, "/")):
        tour.get_by_text(name, exact=True).click()
        check_step(n, path)
    page.go_back()  # of the browser: page and parameters change together
    check_step(3, "/head")
    act(page, page.get_by_role("button", name="Leave the tour").click)
    assert "tour=" not in page.url
    expect(page.get_by_text(" of 6")).to_have_count(0)
    page.get_by_role("button", name="Words", exact=True).click()
    expect(page.get_by_text("Elsewhere: ").first).to_be_visible()


def test_tooltip_stays_open_and_links_to_the_glossary(open_page: Callable[..., Page]) -> None:
    page = open_page("head", text="Dog bites man")
    page.locator(".st-key-tokens [data-testid='stTooltipHoverTarget']").first.hover()
    word = page.locator("[data-testid='stTooltipContent'] a", has_text="head")
    word.hover()  # once it is steady
    page.wait_for_timeout(500)  # longer than a tooltip stays without the pointer
    with page.context.expect_page() as glossary:
        word.click()
    expect(glossary.value.locator(".st-key-term_head")).to_contain_text(TERM["head"].meaning[:20])
    assert "text=Dog" in glossary.value.url
