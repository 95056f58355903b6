"""The strip of tokens: each chip chosen by pointer and by keyboard, and none again."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import act, box_of, reach, wait_until
from tests.browser.test_browser import Visit
from tests.browser.test_frame import LONG

MANY = " ".join([LONG] * 3)


def chips(page: Page) -> Locator:
    return page.get_by_role("radiogroup", name="tokens").get_by_role("radio")


def chosen(page: Page) -> list[int]:
    """The positions of the pressed chips, read at one moment."""
    pressed = chips(page).evaluate_all("chips => chips.map(chip => chip.ariaChecked === 'true')")
    return [n for n, checked in enumerate(pressed) if checked]


def in_line(page: Page, chip: Locator) -> bool:
    """True if all of a chip lies inside the strip, clear of its shaded ends."""
    strip, box = box_of(chips(page).locator("..").first), box_of(chip)
    return (
        strip["x"] + 15 <= box["x"] and box["x"] + box["width"] <= strip["x"] + strip["width"] - 15
    )


def test_every_chip_is_chosen_by_keyboard_and_none_by_the_same(walk: Visit) -> None:
    page = walk("head", text="of the bank of the bank")
    reach(page, chips(page).first)
    last = -1
    for n in range(6):
        expect(chips(page).nth(n)).to_be_focused()
        if key := {0: "Enter", 5: "Space"}.get(n):
            act(page, lambda key=key: page.keyboard.press(key))  # type: ignore[misc]
            page.wait_for_url(f"**query={n}*")
            last = n
        assert chosen(page) == [last]
        page.keyboard.press("ArrowRight")
        assert chosen(page) == [last], "the keys move the focus alone"
    expect(chips(page).nth(5)).to_be_focused()  # the end
    act(page, lambda: page.keyboard.press("Enter"))
    page.wait_for_url(lambda url: "query" not in url)
    assert chosen(page) == []
    page.keyboard.press("Home")
    expect(chips(page).first).to_be_focused()
    page.keyboard.press("Tab")
    assert not chips(page).evaluate_all("chips => chips.some(chip => chip.matches(':focus'))")
    page.keyboard.press("Shift+Tab")
    expect(chips(page).first).to_be_focused()


def test_what_is_chosen_in_a_long_strip_comes_in_sight(walk: Visit) -> None:
    page = walk("head", width=1000, text=MANY, query=30)
    expect(chips(page)).to_have_count(45)
    assert in_line(page, chips(page).nth(30))
    assert lines(page) == 1
    hold_tip(page, 29)
    chips(page).nth(30).focus()
    for key in ("End", "Enter"):
        act(page, lambda key=key: page.keyboard.press(key))  # type: ignore[misc]
    page.wait_for_url("**query=44*")
    assert chosen(page) == [44]
    expect(chips(page).nth(44)).to_be_focused()
    expect(chips(page).nth(44)).to_be_in_viewport()
    strip = chips(page).locator("..").first
    act(page, lambda: strip.evaluate("strip => strip.scrollTo(0, 0)"))
    assert in_line(page, chips(page).nth(3)), "a strip that is drawn anew stays where it is"
    act(page, chips(page).nth(3).click)
    assert chosen(page) == [3]
    act(page, page.go_back)
    page.wait_for_url("**query=44*")
    assert chosen(page) == [44]


def hold_tip(page: Page, n: int) -> None:
    """A chip that is pointed at tells its place, beside it and on top."""
    chip = chips(page).nth(n)
    chip.hover()
    tip = chip.get_by_text(f"position {n}")
    wait_until(page, lambda: box_of(tip)["height"] > 10)
    box, message = box_of(chip), box_of(tip)
    assert box["x"] - 60 <= message["x"] <= box["x"] + box["width"]
    assert 0 <= message["y"] - box["y"] - box["height"] <= 10
    on_top = "({ x, y }) => document.elementFromPoint(x, y).closest('.st-key-token_chips') !== null"
    assert page.evaluate(on_top, {"x": message["x"] + 5, "y": message["y"] + 10})


def test_many_that_can_t_be_chosen_are_read_and_scrolled_by_keyboard(walk: Visit) -> None:
    page = walk("shapes", width=1000, text=MANY, query=1)
    assert all(chip.is_disabled() for chip in chips(page).all())
    ink = page.locator(".stApp").first.evaluate("app => getComputedStyle(app).color")
    look = "all => all.map(part => getComputedStyle(part)).map(css => [css.color, css.opacity])"
    for part in ("[role=radio] > span", "p"):
        looks = page.locator(f".st-key-tokens {part}").evaluate_all(look)
        assert looks
        assert all(css == [ink, "1"] for css in looks)
    strip = page.get_by_role("radiogroup", name="45 tokens")
    reach(page, strip)
    page.keyboard.press("ArrowRight")
    page.wait_for_function("strip => strip.scrollLeft > 0", arg=strip.element_handle())


def lines(page: Page) -> int:
    """The lines that the chips stand in."""
    return len(set(chips(page).evaluate_all("chips => chips.map(chip => chip.offsetTop)")))


def test_few_take_two_lines_and_on_a_narrow_window_one(walk: Visit) -> None:
    page = walk("head", text=f"{LONG} and Mary gave it")
    for width, expected in ((1440, 1), (1000, 2), (500, 1)):
        page.set_viewport_size({"width": width, "height": 900})
        wait_until(page, lambda expected=expected: lines(page) == expected)  # type: ignore[misc]
