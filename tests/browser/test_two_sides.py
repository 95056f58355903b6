"""Two sides, with real clicks: what is chosen on one side is chosen on the other."""

from __future__ import annotations

from numpy.testing import assert_allclose

from tests.browser.conftest import settle
from tests.browser.test_browser import Visit, click_cell, drawn, weights

AFTER = "The steel was lifted by a crane"


def test_a_choice_on_one_side_is_one_on_the_other(visit: Visit) -> None:
    page = visit("side_by_side", differs="text", text2=AFTER, layer=2)
    partner = page.get_by_role("radio", name="6 ·crane ↔ 1")
    assert partner.get_attribute("aria-checked") == "true"
    click_cell(page, "weights_a", 0, 0)
    assert "query=0" in page.url
    click_cell(page, "weights_b", 6, 0)  # crane, whose partner is crane
    assert "query=1" in page.url
    click_cell(page, "weights_b", 3, 0)  # lifted has no partner: it becomes crane's
    assert "match=1%3A3" in page.url
    page.reload()
    settle(page)
    assert page.get_by_role("radio", name="3 ·lifted ↔ 1").get_attribute("aria-checked") == "true"
    page.get_by_role("radio", name="6 ·crane").click()
    settle(page)
    page.wait_for_timeout(300)
    assert "match=1%3A6" in page.url


def test_a_head_that_is_clicked_is_shown_on_both_sides(walk: Visit) -> None:
    page = walk("side_by_side", differs="mask", layer=0, head=0)
    click_cell(page, "side_heads", 2, 3)
    assert "layer=2" in page.url
    assert "head=3" in page.url
    click_cell(page, "both_sides", 1, 0, panel=1)
    assert "query=1" in page.url
    for panel, causal in zip(drawn(page, "both_sides"), (True, False), strict=True):
        assert_allclose(panel["z"], weights("A crane ate fish", 2, causal)[3], atol=1e-6)
    page.get_by_role("radio", name="Heads").click()
    settle(page)
    click_cell(page, "side_heads", 1, 5)
    assert "layer2=1" in page.url
    assert "head2=5" in page.url
    assert "layer=2&" in page.url
