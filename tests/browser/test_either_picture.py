"""The browser switches between a matrix and lines without a message to the server, and draws what
an independent GPT-2 computes; the server learns of the switch with the next request.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Page, expect

from tests.browser.conftest import CountedTab, act, settle
from tests.browser.test_browser import panels, picture
from tests.browser.test_lines import LINES
from tests.browser.test_save import open_save
from tests.browser.test_zoom import drag
from tests.bundled import weights
from tests.numpy_gpt2 import Tolerance

TEXT, SECOND = "The cat sat on the mat and the cat sat", "A crane lifted the steel"
ADDRESS = {"text": TEXT, "layer": 1, "head": 2, "query": 4}
TOLERANCE: Tolerance = {"rtol": 2e-3, "atol": 2e-3}
#: Lines at rest are drawn from the first of these weights that leaves few enough of them.
AT_LEAST, AT_REST = (0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5), 300

Weights = np.ndarray


class Entry(NamedTuple):
    """A page, its parameters, and the heads that its pictures of lines show, by container.

    Each picture shows one head, or several together.
    """

    page: str
    chosen: dict[str, Any]
    shown: dict[str, list[list[str]]]


#: A head that is shown is named by the text, then layer and head.
ENTRIES = {
    "a head": Entry("head", {}, {"stage_weights": [["first 1.2"]]}),
    "layers": Entry(
        "side_by_side",
        {"layers": "0,2,3", "head": 5},
        {"layers_chart": [["first 0.5", "first 2.5", "first 3.5"]]},
    ),
    "the mask": Entry(
        "side_by_side", {"differs": "mask"}, {"both_sides": [["first 1.2"], ["open 1.2"]]}
    ),
    "sentences": Entry(
        "side_by_side",
        {"differs": "text", "text2": SECOND},
        {"weights_a": [["first 1.2"]], "weights_b": [["second 1.2"]]},
    ),
}


def open_entry(tab: CountedTab, entry: Entry, **more: Any) -> Page:
    query = {**ADDRESS, **entry.chosen, **more}
    return tab.open(entry.page, **{k: v for k, v in query.items() if v is not None})


def expected(shown: str) -> Weights:
    """The weights of a head, from a GPT-2 that shares no code with the app."""
    text, _, name = shown.partition(" ")
    layer, head = map(int, name.split("."))
    return weights(SECOND if text == "second" else TEXT, text != "open")[layer, head]


def lines(page: Page, key: str, n: int, source: int) -> dict[tuple[int, int], float]:
    """The width of every line at rest of one source in the n-th picture, by query and key."""
    rest = page.locator(f".st-key-{key} .view").nth(n).locator("g.rest")
    return {
        (int(line["query"]), int(line["key"])): line["width"]
        for line in rest.evaluate(LINES)
        if line["source"] == str(source)
    }


def check_lines(widths: dict[tuple[int, int], float], shown: Weights, total: list[Weights]) -> None:
    least = next(n for n in AT_LEAST if sum((matrix >= n).sum() for matrix in total) <= AT_REST)
    missing = set(zip(*np.nonzero(shown >= least), strict=True)) ^ widths.keys()
    assert all(abs(shown[ends] - least) < 1e-5 for ends in missing)
    assert len(widths) > 3
    for ends, width in widths.items():
        assert width == pytest.approx(0.6 + 6.4 * shown[ends], abs=1e-4)


def check_all_lines(page: Page, entry: Entry) -> None:
    for key, pictures in entry.shown.items():
        for n, sources in enumerate(pictures):
            of_all = [expected(shown) for shown in sources]
            for source, of_source in enumerate(of_all):
                check_lines(lines(page, key, n, source), of_source, of_all)


def choose(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name, exact=True).click()


def test_lines_of_pooled_matrices_come_from_the_server(tab: CountedTab) -> None:
    page = open_entry(tab, Entry("find", {"layer": None, "head": None}, {}))
    assert [len(panel["z"]) for panel in panels(page, "best_heads")] == [64] * 4
    choose(page, "Lines")
    assert tab.new_messages() == 1
    expect(page.locator(".st-key-best_heads .either.lined .rows")).to_have_count(4)


def test_switch_to_lines_and_back_needs_no_server(tab: CountedTab) -> None:
    """With several heads in one picture; ``tests/app/test_lines.py`` covers every page."""
    entry, key = ENTRIES["layers"], "layers_chart"
    page = open_entry(tab, entry)
    matrices = panels(page, key)
    expect(picture(page, key)).to_be_visible()
    for shown, panel in zip(entry.shown[key][0], matrices, strict=True):
        assert_allclose(panel["z"], expected(shown), **TOLERANCE)
    choose(page, "Lines")
    assert "picture=lines" in page.url
    check_all_lines(page, entry)
    expect(picture(page, key)).not_to_be_visible()
    choose(page, "Matrix")
    expect(picture(page, key)).to_be_visible()
    expect(page.locator(f".st-key-{key} .view").first).not_to_be_visible()
    assert panels(page, key) == matrices
    choose(page, "Lines")
    assert tab.new_messages() == 0, "the server was asked"

    open_save(page, "Picture")
    settle(page)
    page.get_by_role("combobox", name="Picture").click()
    offered = " ".join(page.get_by_role("option").all_text_contents())
    assert "Attention weight of layer 0, layer 2, layer 3, head 5, as lines" in offered
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    settle(page)
    check_all_lines(page, entry)
    tab.new_messages()
    choose(page, "Matrix")
    expect(picture(page, key)).to_be_visible()
    assert panels(page, key) == matrices
    assert tab.new_messages() == 0, "the server was asked"


def test_lines_show_the_zoomed_part(tab: CountedTab) -> None:
    what, key = "the mask", "both_sides"
    page = open_entry(tab, ENTRIES[what])
    drag(page, key, (4.7, 1.7), (8.3, 6.3))
    choose(page, "Lines")
    sides = [expected(shown) for (shown,) in ENTRIES[what].shown[key]]
    for n, side in enumerate(sides):
        part = side[5:9, 2:7]
        check_lines(lines(page, key, n, 0), part, [part])
    queries = page.locator(f".st-key-{key} .view").first.locator("button.q")
    assert queries.first.get_attribute("aria-label") == "query 5 ·mat"
    page.get_by_role("button", name="Show the whole text").click()
    check_lines(lines(page, key, 0, 0), sides[0], sides[:1])
    choose(page, "Matrix")
    assert_allclose(panels(page, key)[0]["z"], sides[0], **TOLERANCE)
    drag(page, key, (4.7, 1.7), (8.3, 6.3))
    choose(page, "Lines")
    assert tab.new_messages() == 0, "the server was asked"
    second = page.locator(f".st-key-{key} .view").nth(1)
    act(page, lambda: second.get_by_role("button", name="query 7 ·the", exact=True).click())
    page.wait_for_url("**query=7*")
    for n in range(2):
        button = page.locator(f".st-key-{key} .view").nth(n).locator("button.q").nth(2)
        expect(button).to_contain_class("pointed")


def test_query_clicked_in_lines_is_chosen_on_both_sides(tab: CountedTab) -> None:
    second = "The steel was lifted by a crane"
    sides = {"text": "A crane ate fish", "text2": second, "query": None}
    page = open_entry(tab, ENTRIES["sentences"], **sides)
    choose(page, "Lines")
    side = page.locator(".st-key-weights_b")
    act(page, lambda: side.get_by_role("button", name="query 6 ·crane", exact=True).click())
    page.wait_for_url("**query=1*")
    for letter, name in (("a", "query 1 ·crane"), ("b", "query 6 ·crane")):
        button = page.locator(f".st-key-weights_{letter}").get_by_role("button", name=name)
        expect(button).to_contain_class("pointed")
    assert "picture=lines" in page.url


def test_lines_reached_by_keyboard_announce_their_numbers(tab: CountedTab) -> None:
    page = open_entry(tab, ENTRIES["a head"])
    page.get_by_role("radio", name="Matrix").focus()
    page.keyboard.press("ArrowRight")
    view = page.locator(".st-key-stage_weights .view")
    briefly = "Attention weights of layer 1, head 2, as lines. All its numbers"
    assert str(view.get_attribute("aria-label")).startswith(briefly)
    assert tab.new_messages() == 0, "the server was asked"
    view.locator("button.q").nth(3).focus()
    largest = f"largest {expected('first 1.2')[1:].max():.3g}"  # the first sees only itself
    expect(page.get_by_role("group", name=largest)).to_have_count(1)
    settle(page)
    expect(view.locator("button.q").nth(3)).to_be_focused()
