"""Find, with real clicks: maps, pictures and rows open a head; cells are painted."""

from __future__ import annotations

import re

import numpy as np
from numpy.testing import assert_allclose
from playwright.sync_api import Page, expect

from tests.browser.conftest import act, box_of, open_from_menu, settle
from tests.browser.test_browser import Visit, click_cell, panels, weights
from tests.bundled import bundled_model, ids_of

TEXT = "When Mary and John went to the garden, John gave the flower to Mary"


def check_map_click(page: Page, text: str, area: str) -> None:
    """A click on a map of heads shows that head in place."""
    click_cell(page, area, 2, 3)
    page.wait_for_url("**/find?*head=3*")
    settle(page)
    assert "layer=2" in page.url
    (large,) = panels(page, "best")
    assert_allclose(large["z"], weights(text, 2)[3], atol=1e-6)
    box = box_of(page.locator(".st-key-best_heads canvas"))
    assert box["y"] + box["height"] <= 900


def test_clicks_on_map_picture_or_row_show_the_head_in_place(open_page: Visit) -> None:
    page = open_page("find", text=TEXT, find="habit", on="sentence", habit="entropy")
    check_map_click(page, TEXT, "atlas")
    page = open_page("find", text=TEXT, find="pattern", only="1")
    click_cell(page, "best", 5, 5, panel=1)
    page.wait_for_url("**/find?*layer=1*")
    settle(page)
    second = page.url
    assert len(panels(page, "best")) == 1
    page.get_by_test_id("stDataFrame").click(position={"x": 18, "y": 55})  # the first row's box
    page.wait_for_url(lambda url: url != second)
    settle(page)
    assert "/find?" in page.url
    assert len(panels(page, "best")) == 1
    page.get_by_role("button", name="Look inside this head").click()
    page.wait_for_url("**/head?*")
    open_from_menu(page, "Find")
    settle(page)
    act(page, page.get_by_role("button", name="Back to the best 4").click)
    assert len(panels(page, "best")) == 4
    assert "head=" not in page.url


def test_clicks_paint_and_erase_cells(open_page: Visit) -> None:
    page = open_page("find", text="A crane ate fish", find="pattern", pattern="empty")
    click_cell(page, "drawing", 3, 1)
    click_cell(page, "drawing", 2, 0)
    click_cell(page, "drawing", 1, 2)  # masked: nothing happens
    assert "cells=3%3A1%2C2%3A0" in page.url
    (picture,) = panels(page, "drawing")
    expected = np.zeros((4, 4))
    expected[3, 1] = expected[2, 0] = 1
    assert np.array_equal(np.array(picture["z"], float), expected)
    click_cell(page, "drawing", 3, 1)
    assert "cells=2%3A0" in page.url


def test_click_in_the_similarity_map_opens_both_heads(open_page: Visit) -> None:
    page = open_page("find", text=TEXT, find="all")
    names = panels(page, "all_heads_alike")[0]["columns"]
    click_cell(page, "all_heads_alike", 2, 7)
    page.wait_for_url("**/side_by_side?*")
    settle(page)
    (layer, head), (layer2, head2) = names[2].split("."), names[7].split(".")
    for text in ("differs=head", f"layer={layer}", f"head={head}", f"layer2={layer2}"):
        assert text in page.url
    assert f"head2={head2}" in page.url
    act(page, page.go_back)
    click_cell(page, "all_heads_alike", 4, 4)
    page.wait_for_url("**/head?*")


def test_edge_is_chosen_by_its_letter_or_row(open_page: Visit) -> None:
    page = open_page("find", text=TEXT, find="wiring", into="v")
    # The first edge is already chosen when the page opens.
    letter = box_of(page.locator(".st-key-wiring .chart > svg text", has_text="V").nth(3))
    x, y = letter["x"] + letter["width"] / 2, letter["y"] + letter["height"] / 2
    page.mouse.move(x, y)
    expect(page.locator(".st-key-wiring .chart .tip")).to_be_visible()
    page.mouse.click(x, y)
    page.wait_for_url("**edge=*")
    settle(page)
    clicked = page.url
    (a, c) = re.findall(r"edge=(\d+\.\d+)%3A(\d+\.\d+)%3Av", clicked)[0]
    assert page.get_by_text(f"Head {a} feeds head {c}'s values").is_visible()
    page.get_by_text("All that is drawn, as a table").click()
    page.get_by_test_id("stDataFrame").click(position={"x": 18, "y": 55 + 35})  # the second row
    page.wait_for_url(lambda url: url != clicked)
    settle(page)
    page.get_by_text("Both as one virtual head").click()
    box = box_of(page.locator(".st-key-joint canvas"))
    assert box["y"] + box["height"] <= 900


def test_heads_from_it_to_animal_take_two_clicks(open_page: Visit) -> None:
    text = "The animal didn't cross the street because it was too tired"
    page = open_page("find", text=text, find="look")
    page.locator(".st-key-tokens").get_by_role("radio", name="·it", exact=False).first.click()
    settle(page)
    page.locator(".st-key-keys").get_by_text("·animal").click()
    settle(page)
    assert panels(page, "maps")
    ids = ids_of(text)
    tokens = [bundled_model().tokenizer.decode([n]) for n in ids]
    it, animal = tokens.index(" it"), tokens.index(" animal")
    expected = [weights(text, layer)[:, it, animal] for layer in range(4)]
    assert_allclose(panels(page, "maps")[0]["z"], expected, atol=1e-6)
    check_map_click(page, text, "maps")
