"""The page of one head: all of it on the first screen, with the sum of a cell beside it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import act, box_of, open_from_menu, settle
from tests.browser.test_browser import Visit, click_cell
from tests.bundled import N_HEAD, stages

LONG = "The little dog ran to the big red house because it was so very cold"
#: The indices, among the page's pictures, of some with a number for every query and key.
PAIRS = {"scores": 3, "masked_scores": 5, "weights": 6}


def sum_of(page: Page) -> Locator:
    return page.locator(".st-key-written_sum .sum")


def results(page: Page) -> list[float]:
    """The written raw score, scaled score and weight."""
    result = sum_of(page).locator(".result b").all_text_contents()
    return [float(text.removeprefix("= ").replace("−", "-")) for text in result]


def test_whole_head_fits_the_first_screen(open_page: Visit, subtests: pytest.Subtests) -> None:
    for text in (LONG, "A crane ate fish"):
        with subtests.test(text):
            page = open_page("head", text=text)
            pictures = page.locator(".st-key-stages .tiles").all()
            assert len(pictures) == 8
            boxes = [box_of(part) for part in [*pictures, sum_of(page)]]
            assert min(box["y"] for box in boxes) < 210
            assert max(box["y"] + box["height"] for box in boxes) <= 900
            assert max(box["x"] + box["width"] for box in boxes) <= 1440
            assert page.evaluate("document.querySelector('.stMain').scrollTop") == 0
    check_sum_beside_pictures(page)


def check_sum_beside_pictures(page: Page) -> None:
    """It also stands beside the notes on their colours, unless the window is too narrow."""
    for width, beside in ((1101, True), (1000, True), (400, False)):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        result = box_of(sum_of(page))
        for part in page.locator(".st-key-stages :is(.tiles, .st-key-signs p)").all():
            drawn = box_of(part)
            assert (drawn["x"] + drawn["width"] <= result["x"]) == beside
            assert drawn["x"] + drawn["width"] <= width
            assert drawn["width"] >= 100
            if not beside:
                assert drawn["y"] + drawn["height"] <= result["y"]
        assert result["x"] + result["width"] <= width
    expect(sum_of(page).locator(".result b").first).to_have_css("white-space", "nowrap")


def test_changes_by_a_click_are_in_view(open_page: Visit, subtests: pytest.Subtests) -> None:
    page = open_page("head", text=LONG, layer=1, head=4)
    run = stages(LONG)
    for n, stage in enumerate(("scores", "weights")):
        query, key, chart = 9 + n, 6 + n, PAIRS[stage]
        with subtests.test(stage):
            before = results(page)
            click_cell(page, "stages", row=query, column=key, chart=chart)
            assert f"query={query}" in page.url
            assert f"key={key}" in page.url
            heading = page.get_by_role("heading", name="One cell in full")
            expect(heading).to_contain_text(f"({query}), key")
            expected = [
                run[name][1][4][query, key] for name in ("scores", "scaled_scores", "weights")
            ]
            assert_allclose(results(page), expected, rtol=2e-4, atol=2e-4)
            assert not np.allclose(results(page), before)
            assert page.evaluate("document.querySelector('.stMain').scrollTop") == 0
            result = box_of(sum_of(page))
            clicked = box_of(page.locator(".st-key-stages .tiles").nth(chart))
            assert result["y"] + result["height"] <= 900
            assert result["x"] >= clicked["x"] + clicked["width"]
    click_cell(page, "stages", row=1, column=2, chart=PAIRS["masked_scores"])
    expect(sum_of(page)).to_contain_text("masked, as this key comes after the query: −∞")
    expect(sum_of(page).locator(".chosen")).to_contain_text("−∞0.00000.0000")
    assert results(page)[-1] == 0


def test_click_on_q_chooses_a_query_and_on_k_or_v_a_key(open_page: Visit) -> None:
    page = open_page("head", text=LONG, layer=1, head=4)
    for chart, row, message in ((0, 8, "query=8"), (1, 3, "key=3"), (2, 5, "key=5")):
        click_cell(page, "sources", row=row, column=2, chart=chart)
        assert message in page.url
    heading = page.get_by_role("heading", name="One cell in full")
    expect(heading).to_contain_text("query ·house (8), key ·the (5)")
    open_from_menu(page, "Predict")  # whose link was drawn before the key was chosen
    page.wait_for_url("**/predict?**")
    settle(page)
    assert all(part in page.url for part in ("query=8", "key=5"))
    act(page, page.go_back)
    expect(heading).to_contain_text("query ·house (8), key ·the (5)")
    page.keyboard.down("Shift")  # "why there?" on the open page
    click_cell(page, "stages", row=9, column=6, chart=PAIRS["scores"])
    page.keyboard.up("Shift")
    expect(page.locator(".st-key-why_strands")).to_contain_text(re.compile("9 ·because[^#]*, 6 "))
    state = ("see=why", "layer=1", "head=4", "query=9", "key=6")
    assert all(part in page.url for part in state)
    click_cell(page, "why_weights", row=7, column=2)
    expect(page.locator(".st-key-why_strands")).to_contain_text(re.compile("7 [^#]*, 2 "))
    assert all(part in page.url for part in ("query=7", "key=2"))


def test_click_on_a_contribution_opens_its_head_in_view(open_page: Visit) -> None:
    page = open_page("head", see="why", text=LONG, layer=2, head=3, query=13, key=5)
    path, strands = (page.locator(f".st-key-why_{name}") for name in ("path", "strands"))
    act(page, strands.get_by_role("button", name="head 1.7 read 0").click)
    for opened, name in ((1, "head 1.7, from 13"), (2, "head 0.")):
        expect(path.locator("strong")).to_contain_text(name)
        assert len(re.findall(r"\d\.\d%3A", page.url)) == opened
        for changed in ("why_path", "why_answer", "why_weights", "why_strands"):
            seen = box_of(page.locator(f".st-key-{changed}"))
            assert 0 <= seen["y"] < seen["y"] + seen["height"] <= 900, changed
        if opened == 1:  # by keyboard
            strands.get_by_role("button", name=re.compile(r"query +head 0\.")).first.press("Enter")
    act(page, path.get_by_role("button").first.click)
    page.get_by_text("How this is measured").click()
    settle(page)
    click_cell(page, "why_table", row=0, column=2 + N_HEAD + 2)  # head 1.0, above bias and MLP
    expect(path.locator("strong")).to_contain_text("head 1.0, from 5")
