"""Two runs, with real clicks: the sides of a comparison, and edits that hide cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from playwright.sync_api import Page, expect

import gpt2viz
from gpt2viz.analysis.text_pairs import telling_answers
from tests.browser.conftest import act, box_of, settle
from tests.browser.test_browser import MIDDLE, Visit, click_cell, panels, weights
from tests.bundled import bundled_model

AFTER = "The steel was lifted by a crane"


def test_choice_on_one_side_applies_to_the_other(open_page: Visit) -> None:
    page = open_page("side_by_side", differs="text", text2=AFTER, layer=2)
    partner = page.get_by_role("radio", name="6 ·crane ↔ 1")
    assert partner.get_attribute("aria-checked") == "true"
    click_cell(page, "weights_a", 0, 0)
    assert "query=0" in page.url
    click_cell(page, "weights_b", 6, 0)  # crane, whose partner is crane
    assert "query=1" in page.url
    click_cell(page, "weights_b", 3, 0)  # lifted has no partner: it becomes crane's
    assert "match=1%3A3" in page.url
    assert page.get_by_role("radio", name="3 ·lifted ↔ 1").get_attribute("aria-checked") == "true"
    act(page, page.get_by_role("radio", name="6 ·crane").click)
    assert "match=1%3A6" in page.url


def test_clicked_head_is_shown_on_both_sides(open_page: Visit) -> None:
    page = open_page("side_by_side", differs="mask", layer=0, head=0)
    click_cell(page, "side_heads", 2, 3)
    assert "layer=2" in page.url
    assert "head=3" in page.url
    click_cell(page, "both_sides", 1, 0, panel=1)
    assert "query=1" in page.url
    for panel, causal in zip(panels(page, "both_sides"), (True, False), strict=True):
        assert_allclose(panel["z"], weights("A crane ate fish", 2, causal)[3], atol=1e-6)
    page.get_by_role("radio", name="Heads").click()
    settle(page)
    click_cell(page, "side_heads", 1, 5)
    assert all(part in page.url for part in ("layer2=1", "head2=5", "layer=2&"))


def test_matrices_side_by_side_are_equally_large(open_page: Visit) -> None:
    for differs in ("mask", "layers"):
        page = open_page("side_by_side", 1000, differs=differs, text=" unbelievable fishermen" * 20)
        boxes = "views => views.slice(0, 2).map(view => view.look.boxes[0].w)"
        pair, difference = page.locator(".tiles").evaluate_all(boxes)
        assert abs(pair - difference) < 5


#: The heights of the points of the first curve in the window.
POINTS = """
chart => [...chart.querySelector(".trace").querySelectorAll(".point")].map(point => {
  const box = point.getBoundingClientRect()
  return box.y + box.height / 2
})
"""


def edited_weights(text: str, layer: int, head: int) -> np.ndarray:
    edits = gpt2viz.parse_edits(text)
    trace = gpt2viz.trace(bundled_model(), "A crane ate fish", edits=edits)
    return trace.stage("weights", layer)[0, head]


def matrices(page: Page) -> list[Any]:
    return [np.array(panel["z"], float) for panel in panels(page, "whatif")]


def check_lens(page: Page, key: str) -> None:
    """The curves' points align with the matrix rows beside them; the legend is below."""
    curves = page.locator(f".st-key-{key}_curves")
    heights = curves.locator(".chart").evaluate(POINTS)
    tiles = page.locator(f".st-key-{key} .tiles")
    rows = [tiles.evaluate(MIDDLE, [0, row, 0])[1] for row in range(len(heights))]
    assert_allclose(heights, rows, atol=1)
    legend, numbers = (box_of(curves.locator(part).last) for part in (".legend", ".tick"))
    assert legend["y"] > numbers["y"] + numbers["height"]


def test_clicks_on_cells_hide_and_restore_keys(open_page: Visit) -> None:
    for width, parts in ((400, ("edit_kind", "edit_layer")), (880, ("layer", "whole"))):
        boxes = [box_of(open_page("what_if", width).locator(f".st-key-{part}")) for part in parts]
        assert len({round(box["y"] + box["height"]) for box in boxes}) == 1
    page = open_page("what_if", layer=0, head=0)
    click_cell(page, "whatif", 2, 1)
    assert "edits=forbid%3A2%3A1" in page.url
    click_cell(page, "whatif", 3, 0)
    assert "%2Cforbid%3A3%3A0" in page.url
    before, after, change = matrices(page)
    expected = edited_weights("forbid:2:1,forbid:3:0", 0, 0)
    assert_allclose(after, expected, atol=1e-6)
    assert_allclose(before, edited_weights("", 0, 0), atol=1e-6)
    assert_allclose(change, expected - before, atol=1e-6)
    check_lens(page, "lens_runs")
    click_cell(page, "where", 3, 4)
    assert_allclose(matrices(page)[1], edited_weights("forbid:2:1,forbid:3:0", 3, 4), atol=1e-6)
    page.keyboard.down("Shift")  # "why there?" of the edited run
    click_cell(page, "whatif", 3, 1, panel=1)
    page.keyboard.up("Shift")
    page.wait_for_url("**/head?*")
    settle(page)
    assert "edited=true" in page.url
    weight = edited_weights("forbid:2:1,forbid:3:0", 3, 4)[3, 1]
    expect(page.locator(".st-key-why_answer")).to_contain_text(f" ({weight:.2f})")
    act(page, page.go_back)
    page.wait_for_url("**/what_if?*")
    click_cell(page, "whatif", 3, 0, panel=1)  # grey there: shown again
    act(page, page.locator(".st-key-edit_list").get_by_role("button").first.click)
    assert "edits" not in page.url
    assert_allclose(matrices(page)[1], edited_weights("", 3, 4), atol=1e-6)
    page.locator(".st-key-edit_kind input").click()
    act(page, page.get_by_role("option", name="Patch in a piece of another text").click)
    piece = page.locator(".st-key-edit_stage input")  # its name isn't cut
    assert piece.evaluate("input => input.scrollWidth <= input.clientWidth")
    check_patch(page)


def check_patch(page: Page) -> None:
    """A click on a cell of a sweep reports that patch's effect, in view.

    The second sentence is the page's own; ``tests/app/test_depends.py`` follows the patch in full.
    """
    act(page, page.get_by_role("radio", name="Patching").click)
    model, text = bundled_model(), "A crane ate fish"
    second = page.get_by_role("textbox", name="Second sentence")
    other = second.input_value()
    click_cell(page, "depends_streams", 2, 2)
    assert "patch=patch%3Aresidual_in%3A2%3A2" in page.url
    answer = telling_answers(*(gpt2viz.trace(model, sentence) for sentence in (text, other)))
    share = gpt2viz.patch_sweep(model, text, other, answer=answer).restored[2, 2]
    message = box_of(page.get_by_text(f"recovers {100 * share:.0f} % of the answer"))
    assert message["y"] + message["height"] <= 900
    page.set_viewport_size({"width": 1000, "height": 900})
    second.fill(f"{other} ")
    act(page, lambda: second.press("Enter"))
    assert box_of(page.get_by_text("Second sentence: This text ends with"))["height"] < 50
