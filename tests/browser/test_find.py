"""Find a head, with real clicks: maps, pictures and rows open a head; cells are painted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.browser.conftest import open_from_menu, settle
from tests.browser.test_browser import Visit, click_cell, drawn

TEXT = "When Mary and John went to the garden, John gave the flower to Mary"


@pytest.mark.parametrize(
    ("find", "area"), [("habit", "atlas"), ("look", "maps"), ("pattern", "maps")]
)
def test_a_click_on_a_map_opens_the_head(visit: Visit, find: str, area: str) -> None:
    page = visit("find", text=TEXT, find=find, keys="1")
    click_cell(page, area, 2, 3)
    page.wait_for_url("**/inside_head?*")
    assert "layer=2" in page.url
    assert "head=3" in page.url
    page.go_back()
    settle(page)
    assert "/find?" in page.url


def test_a_click_on_a_picture_or_a_row_opens_the_head_once(visit: Visit) -> None:
    page = visit("find", text=TEXT, find="pattern", only="1")
    click_cell(page, "best", 5, 5, panel=0)
    page.wait_for_url("**/inside_head?*")
    assert "layer=1" in page.url
    open_from_menu(page, "Find a head")
    settle(page)
    page.get_by_test_id("stDataFrame").click(position={"x": 18, "y": 55})  # the first row's box
    page.wait_for_url("**/inside_head?*")
    assert "layer=1" in page.url
    open_from_menu(page, "Find a head")
    page.wait_for_timeout(500)
    settle(page)
    assert "/find?" in page.url  # the row that was chosen doesn't open its head again


def test_painting_cells(visit: Visit) -> None:
    page = visit("find", text="A crane ate fish", find="pattern", pattern="empty")
    click_cell(page, "drawing", 3, 1)
    click_cell(page, "drawing", 2, 0)
    click_cell(page, "drawing", 1, 2)  # masked: nothing happens
    assert "cells=3%3A1%2C2%3A0" in page.url
    (picture,) = drawn(page, "drawing")
    wanted = np.zeros((4, 4))
    wanted[3, 1] = wanted[2, 0] = 1
    assert np.array_equal(np.array(picture["z"], float), wanted)
    click_cell(page, "drawing", 3, 1)
    assert "cells=2%3A0" in page.url
