"""The strip of tokens: chips are chosen and unchosen by pointer and by keyboard."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import act, box_of, tab_to, wait_until
from tests.browser.test_browser import Visit
from tests.browser.test_frame import LONG

MANY = " ".join([LONG] * 3)


def chips(page: Page) -> Locator:
    return page.get_by_role("radiogroup", name="tokens").get_by_role("radio")


def chosen_positions(page: Page) -> list[int]:
    """The positions of the pressed chips, all read at once."""
    pressed = chips(page).evaluate_all("chips => chips.map(chip => chip.ariaChecked === 'true')")
    return [n for n, checked in enumerate(pressed) if checked]


def is_in_strip(page: Page, chip: Locator) -> bool:
    """True if all of a chip lies inside the strip, clear of its shaded ends."""
    strip, box = box_of(chips(page).locator("..").first), box_of(chip)
    return (
        strip["x"] + 15 <= box["x"] and box["x"] + box["width"] <= strip["x"] + strip["width"] - 15
    )


def test_chips_are_chosen_and_unchosen_by_keyboard(open_page: Visit) -> None:
    page = open_page("head", text="of the bank of the bank")
    tab_to(page, chips(page).first)
    last = -1
    for n in range(6):
        expect(chips(page).nth(n)).to_be_focused()
        if key := {0: "Enter", 5: "Space"}.get(n):
            act(page, lambda key=key: page.keyboard.press(key))  # type: ignore[misc]
            page.wait_for_url(f"**query={n}*")
            last = n
        assert chosen_positions(page) == [last]
        page.keyboard.press("ArrowRight")
        assert chosen_positions(page) == [last], "the keys move only the focus"
    expect(chips(page).nth(5)).to_be_focused()  # the end
    act(page, lambda: page.keyboard.press("Enter"))
    page.wait_for_url(lambda url: "query" not in url)
    assert chosen_positions(page) == []
    page.keyboard.press("Home")
    expect(chips(page).first).to_be_focused()
    page.keyboard.press("Tab")
    assert not chips(page).evaluate_all("chips => chips.some(chip => chip.matches(':focus'))")
    page.keyboard.press("Shift+Tab")
    expect(chips(page).first).to_be_focused()


def test_chosen_chip_of_a_long_strip_scrolls_into_view(open_page: Visit) -> None:
    page = open_page("head", width=1000, text=MANY, query=30)
    expect(chips(page)).to_have_count(45)
    assert is_in_strip(page, chips(page).nth(30))
    assert n_lines(page) == 1
    check_tooltip(page, 29)
    chips(page).nth(30).focus()
    for key in ("End", "Enter"):
        act(page, lambda key=key: page.keyboard.press(key))  # type: ignore[misc]
    page.wait_for_url("**query=44*")
    assert chosen_positions(page) == [44]
    expect(chips(page).nth(44)).to_be_focused()
    expect(chips(page).nth(44)).to_be_in_viewport()
    strip = chips(page).locator("..").first
    act(page, lambda: strip.evaluate("strip => strip.scrollTo(0, 0)"))
    assert is_in_strip(page, chips(page).nth(3)), "a redrawn strip keeps its scroll position"
    act(page, chips(page).nth(3).click)
    assert chosen_positions(page) == [3]
    act(page, page.go_back)
    page.wait_for_url("**query=44*")
    assert chosen_positions(page) == [44]


def check_tooltip(page: Page, n: int) -> None:
    """A hovered chip shows its position, beside it and on top of other parts."""
    chip = chips(page).nth(n)
    chip.hover()
    tip = chip.get_by_text(f"position {n}")
    wait_until(page, lambda: box_of(tip)["height"] > 10)
    box, message = box_of(chip), box_of(tip)
    assert box["x"] - 60 <= message["x"] <= box["x"] + box["width"]
    assert 0 <= message["y"] - box["y"] - box["height"] <= 10
    on_top = "({ x, y }) => document.elementFromPoint(x, y).closest('.st-key-token_chips') !== null"
    assert page.evaluate(on_top, {"x": message["x"] + 5, "y": message["y"] + 10})


def test_disabled_chips_are_legible_and_scroll_by_keyboard(open_page: Visit) -> None:
    page = open_page("shapes", width=1000, text=MANY, query=1)
    assert all(chip.is_disabled() for chip in chips(page).all())
    ink = page.locator(".stApp").first.evaluate("app => getComputedStyle(app).color")
    look = "all => all.map(part => getComputedStyle(part)).map(css => [css.color, css.opacity])"
    for part in ("[role=radio] > span", "p"):
        styles = page.locator(f".st-key-tokens {part}").evaluate_all(look)
        assert styles
        assert all(css == [ink, "1"] for css in styles)
    strip = page.get_by_role("radiogroup", name="45 tokens")
    tab_to(page, strip)
    page.keyboard.press("ArrowRight")
    page.wait_for_function("strip => strip.scrollLeft > 0", arg=strip.element_handle())


def n_lines(page: Page) -> int:
    """The number of lines that the chips take."""
    return len(set(chips(page).evaluate_all("chips => chips.map(chip => chip.offsetTop)")))


def test_number_of_lines_by_window_width(open_page: Visit) -> None:
    page = open_page("head", text=f"{LONG} and Mary gave it")
    for width, expected in ((1440, 1), (1000, 2), (500, 1)):
        page.set_viewport_size({"width": width, "height": 900})
        wait_until(page, lambda expected=expected: n_lines(page) == expected)  # type: ignore[misc]
