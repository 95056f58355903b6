"""What lies over what, and whether the box shows the text that is run."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import settle


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
    assert r"\n" in page.locator(".st-key-tokens [role=radiogroup]").inner_text()
    box.fill("a b")
    box.press("Control+Enter")
    settle(page)
    assert page.locator("input[aria-label=Sentence]").input_value() == "a b"
    assert r"\n" not in page.locator(".st-key-tokens [role=radiogroup]").inner_text()


def test_chips_that_choose_nothing_can_be_read_and_not_pressed(walk: Callable[..., Page]) -> None:
    for dark in (False, True):
        page = walk("shapes", query=1, dark=dark)
        chips = page.locator(".st-key-tokens [role=radio]")
        assert chips.count() == 4
        assert all(chip.is_disabled() for chip in chips.all())
        ink = page.locator(".st-key-examples, .stApp").first.evaluate(
            "e => getComputedStyle(e).color"
        )
        for part in ("[role=radio] > span", "p"):
            look = "e => [getComputedStyle(e).color, getComputedStyle(e).opacity]"
            for found in page.locator(f".st-key-tokens {part}").all():
                assert found.evaluate(look) == [ink, "1"]
