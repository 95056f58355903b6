"""What a newcomer meets: the page that opens by itself, the tour, the words of a page."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Owned, act, settle


def test_started_at_home_it_opens_by_itself_and_nothing_lies_over_it(
    browser: Browser, owned: Owned
) -> None:
    """Streamlit has an offer for those who write apps, on a machine where their helpers live."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(owned.address)
        settle(page)
        expect(page.locator(".stSkillsNudge")).to_have_count(0)
        assert owned.opened.read_text() == owned.address


def test_the_tour_goes_through_the_app_and_can_be_left(walk: Callable[..., Page]) -> None:
    page = walk()
    page.get_by_role("button", name="Tour", exact=True).click()
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
    page = walk("", text="Dog bites man")
    page.locator(".st-key-tokens [data-testid='stTooltipHoverTarget']").first.hover()
    word = page.locator("[data-testid='stTooltipContent'] a", has_text="token")
    place = word.bounding_box()
    assert place
    page.mouse.move(place["x"] + 5, place["y"] + 5, steps=20)
    page.wait_for_timeout(500)  # longer than a tip stays without the pointer
    with page.context.expect_page() as opened:
        word.click()
    expect(opened.value.locator(".st-key-term_token")).to_contain_text("What the model reads")
    assert "text=Dog" in opened.value.url
