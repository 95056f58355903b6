"""Pictures start near the top of a page, and what a click changes is in view beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import FloatRect, Page

from tests.browser.conftest import act, box_of, settle
from tests.browser.test_browser import Visit, click_cell

#: The height of a laptop's window, and the lowest allowed top of the first picture, in pixels.
HEIGHT, MAX_TOP = 900, 210
#: Fifteen tokens, whose names are rotated below a matrix.
TEXT = "When Mary and John went to the garden, John gave the flower to Mary"

# The top and bottom of each picture in the window, in page order.
PICTURES = """
() => [...document.querySelectorAll("[class*='st-key-'] *")]
  .flatMap(part => [
    ...part.shadowRoot?.querySelectorAll(".words, .tiles, .map, .view, .chart") ?? []])
  .map(part => part.getBoundingClientRect()).filter(({ height }) => height > 30)
  .map(({ top, bottom }) => [top, bottom])
"""


def pictures(page: Page) -> list[tuple[float, float]]:
    results: list[tuple[float, float]] = page.evaluate(PICTURES)
    return results


#: Addresses that ``CHANGES`` doesn't start from.
MORE_ADDRESSES = (
    "",
    "side_by_side?differs=head",
    "find?find=look&keys=1",
    "find?find=head",
    "find?find=all",
    "what_if?edits=off:1.3,forbid:3:1,off:0.0,mlp:1,scale:2.2:3,window:9,off:3.0,forbid:9:2",
)


def test_first_picture_starts_near_the_top(open_page: Visit) -> None:
    highest = {
        address: min(top for top, _bottom in pictures(open_page(address, text=TEXT)))
        for address in MORE_ADDRESSES
    }
    assert not {address: top for address, top in highest.items() if top > MAX_TOP}


def add_and_choose(page: Page) -> None:
    act(page, page.locator(".st-key-add_edit button").first.click)
    click_cell(page, "where", 3, 1)


def choose(page: Page, name: str) -> None:
    act(page, page.get_by_role("radio", name=name, exact=True).click)


def widen_and_narrow(page: Page) -> None:
    """Choose a query in the row of three layers, which stays one row in a narrower window."""
    click_cell(page, "layer_charts", 2, 1)
    check_row(page, "layers_chart", "differences")
    page.set_viewport_size({"width": 1000, "height": HEIGHT})
    settle(page)


#: Two adjacent pictures.
PAIR = "both_sides", "difference"
#: By page: the actions in order, the areas that each changes, by container key, and those of them
#: that form one row.
CHANGES: dict[str, list[tuple[Callable[[Page], None], tuple[str, ...], tuple[str, ...]]]] = {
    "what_if?layer=2&head=0": [
        (
            add_and_choose,
            ("edit_list", *PAIR, "in_numbers", "best", "where_map"),
            PAIR,
        ),
        (
            lambda page: click_cell(page, "whatif", 2, 1),
            ("edit_list", *PAIR, "in_numbers", "best", "where_map"),
            PAIR,
        ),
    ],
    "what_if?what_if=depends": [
        (
            lambda page: click_cell(page, "depends", 2, 14, panel=2),
            ("depends_streams", "depends_heads", "patched"),
            (),
        )
    ],
    "side_by_side": [
        (partial(choose, name="Causal mask"), (*PAIR, "in_numbers", "best", "heads_map"), PAIR),
        (lambda page: click_cell(page, "side_heads", 3, 1), (*PAIR, "heads_map"), PAIR),
        (lambda page: click_cell(page, "both_sides", 1, 0), (*PAIR, "in_numbers", "best"), PAIR),
    ],
    "side_by_side?differs=text&text2=A+crane+lifted+steel": [
        (
            lambda page: act(page, page.locator(".st-key-partner").get_by_text("steel").click),
            ("partner", "weights_a", "weights_b", "difference", "in_numbers", "best"),
            (),
        )
    ],
    "side_by_side?head=1&layers=0,1,3": [
        (
            widen_and_narrow,
            ("layers_chart", "differences", "strip_chart"),
            ("layers_chart", "differences"),
        )
    ],
    "find": [(partial(choose, name="previous token"), ("ranking", "best_heads"), ())],
    "find?find=pattern": [
        (
            lambda page: click_cell(page, "drawing", 3, 1),
            ("drawn", "map_similarity", "ranking", "best_heads"),
            (),
        )
    ],
}


def area(page: Page, key: str) -> FloatRect:
    return box_of(page.locator(f".st-key-{key}").first)


def check_row(page: Page, *keys: str) -> None:
    """The areas have one top, and the matrices in them have one top and about one size."""
    assert len({round(area(page, key)["y"]) for key in keys}) == 1
    firsts = page.evaluate(
        """keys => keys.flatMap(key => [...document.querySelectorAll(`.st-key-${key} *`)])
             .map(part => part.shadowRoot?.querySelector(".tiles")?.look).filter(Boolean)
             .flatMap(({ boxes }) => boxes.map(({ y, cw }) => [y, cw]))""",
        list(keys),
    )
    tops, sides = zip(*firsts, strict=True)
    assert len(tops) >= 3
    assert len(set(tops)) == 1
    assert max(sides) < 1.25 * min(sides)


def test_changes_by_a_click_are_in_view(open_page: Visit, subtests: pytest.Subtests) -> None:
    for address, steps in CHANGES.items():
        with subtests.test(address):
            page = open_page(address, text=TEXT)
            assert min(top for top, _bottom in pictures(page)) <= MAX_TOP
            for change, changed, row in steps:
                change(page)
                assert page.locator("[data-testid=stMain]").evaluate("main => main.scrollTop") == 0
                for key in changed:
                    box = area(page, key)
                    assert box["y"] >= 0, key
                    assert box["y"] + box["height"] <= HEIGHT, key
                if row:
                    check_row(page, *row)
