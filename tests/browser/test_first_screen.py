"""Pictures begin high on the page, and what a click changes is in sight beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.conftest import act
from tests.browser.test_browser import Visit, click_cell

#: Pixels of a laptop's window, and how far down the first picture may begin at most.
HEIGHT, HIGHEST = 900, 210
#: Fifteen tokens, whose names stand upright below a matrix.
TEXT = "When Mary and John went to the garden, John gave the flower to Mary"

# Where each picture begins and ends, from the top of the window, in the order of the page.
PICTURES = """
() => [...document.querySelectorAll("[class*='st-key-'] *")]
  .flatMap(part => [
    ...part.shadowRoot?.querySelectorAll(".words, .tiles, .map, .view, .chart") ?? []])
  .map(part => part.getBoundingClientRect()).filter(({ height }) => height > 30)
  .map(({ top, bottom }) => [top, bottom])
"""


def pictures(page: Page) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = page.evaluate(PICTURES)
    return found


#: Where ``CHANGES`` doesn't begin.
OTHERS = (
    "",
    "side_by_side?differs=head",
    "find?find=look&keys=1",
    "find?find=head",
    "find?find=all",
    "what_if?edits=off:1.3,forbid:3:1,off:0.0,mlp:1,scale:2.2:3,window:9,off:3.0,forbid:9:2",
)


def test_the_first_picture_begins_high(walk: Visit) -> None:
    highest = {
        address: min(top for top, _bottom in pictures(walk(address, text=TEXT)))
        for address in OTHERS
    }
    assert not {address: top for address, top in highest.items() if top > HIGHEST}


def add_and_choose(page: Page) -> None:
    act(page, page.locator(".st-key-add_edit button").first.click)
    click_cell(page, "where", 3, 1)


def choose(page: Page, name: str) -> None:
    act(page, page.get_by_role("radio", name=name, exact=True).click)


#: A page, what is done there, and the areas that it changes: keys of containers.
CHANGES: dict[str, tuple[str, Callable[[Page], None], tuple[str, ...]]] = {
    "an edit, then a head": (
        "what_if?layer=2&head=0",
        add_and_choose,
        ("edit_list", "both_sides", "difference", "in_numbers", "best", "where_map"),
    ),
    "a key is hidden": (
        "what_if?layer=2&head=0",
        lambda page: click_cell(page, "whatif", 2, 1),
        ("edit_list", "both_sides", "difference", "in_numbers", "best", "where_map"),
    ),
    "a piece is patched": (
        "what_if?what_if=depends",
        lambda page: click_cell(page, "depends", 2, 14, panel=2),
        ("depends_streams", "depends_heads", "patched"),
    ),
    "the mask": (
        "side_by_side",
        partial(choose, name="Causal mask"),
        ("both_sides", "difference", "in_numbers", "best", "heads_map"),
    ),
    "a head that differs": (
        "side_by_side?differs=mask",
        lambda page: click_cell(page, "side_heads", 3, 1),
        ("both_sides", "difference", "heads_map"),
    ),
    "a row": (
        "side_by_side?differs=mask",
        lambda page: click_cell(page, "both_sides", 1, 0),
        ("both_sides", "difference", "in_numbers", "best"),
    ),
    "a partner": (
        "side_by_side?differs=text&text2=A+crane+lifted+steel",
        lambda page: act(page, page.locator(".st-key-partner").get_by_text("steel").click),
        ("partner", "weights_a", "weights_b", "difference", "in_numbers", "best"),
    ),
    "a row of a layer": (
        "side_by_side?head=1",
        lambda page: click_cell(page, "layer_charts", 2, 1),
        ("layers_chart", "differences", "strip_chart"),
    ),
    "what heads are ranked by": (
        "find",
        partial(choose, name="previous token"),
        ("ranking", "best_heads"),
    ),
    "a painted cell": (
        "find?find=pattern",
        lambda page: click_cell(page, "drawing", 3, 1),
        ("drawn", "map_similarity", "ranking", "best_heads"),
    ),
}


def area(page: Page, key: str) -> Locator:
    return page.locator(f".st-key-{key}").first


def test_what_a_click_changes_is_in_sight(walk: Visit, subtests: pytest.Subtests) -> None:
    for what, (address, change, changed) in CHANGES.items():
        with subtests.test(what):
            page = walk(address, text=TEXT)
            assert min(top for top, _bottom in pictures(page)) <= HIGHEST
            change(page)
            assert page.locator("[data-testid=stMain]").evaluate("main => main.scrollTop") == 0
            for key in changed:
                box = area(page, key).bounding_box()
                assert box, key
                assert box["y"] >= 0, key
                assert box["y"] + box["height"] <= HEIGHT, key


#: A page, the pictures that stand beside each other there, and the window's width.
ROWS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("what_if", ("both_sides", "difference"), 1440),
    ("side_by_side?differs=mask", ("both_sides", "difference"), 1440),
    ("side_by_side?layers=0,1,3", ("layers_chart", "differences"), 1440),
    ("side_by_side", ("layers_chart", "differences"), 1000),
)


def test_a_comparison_is_one_row(walk: Visit, subtests: pytest.Subtests) -> None:
    for address, keys, width in ROWS:
        with subtests.test(address):
            page = walk(address, width=width)
            tops = {round(box["y"]) for key in keys if (box := area(page, key).bounding_box())}
            assert len(tops) == 1
            firsts = page.evaluate(
                """keys => keys.flatMap(key => [...document.querySelectorAll(`.st-key-${key} *`)])
                     .map(part => part.shadowRoot?.querySelector(".tiles")?.look).filter(Boolean)
                     .flatMap(({ boxes }) => boxes.map(({ y }) => y))""",
                list(keys),
            )
            assert len(firsts) >= 3
            assert len(set(firsts)) == 1
