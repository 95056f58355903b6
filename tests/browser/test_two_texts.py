"""Two texts, with real clicks: a token chosen on one side is chosen on the other."""

from __future__ import annotations

from tests.browser.conftest import settle
from tests.browser.test_browser import Visit, click_cell

AFTER = "The steel was lifted by a crane"


def test_a_choice_on_one_side_is_one_on_the_other(visit: Visit) -> None:
    page = visit("two_texts", text2=AFTER, layer=2)
    partner = page.get_by_role("radio", name="6 ·crane ↔ 1")
    assert partner.get_attribute("aria-checked") == "true"
    click_cell(page, "first_text", 0, 0)
    assert "query=0" in page.url
    click_cell(page, "second_text", 6, 0)  # crane, whose partner is crane
    assert "query=1" in page.url
    click_cell(page, "second_text", 3, 0)  # lifted has no partner: it becomes crane's
    assert "match=1%3A3" in page.url
    page.reload()
    settle(page)
    assert page.get_by_role("radio", name="3 ·lifted ↔ 1").get_attribute("aria-checked") == "true"
    page.get_by_role("radio", name="6 ·crane").click()
    settle(page)
    page.wait_for_timeout(300)
    assert "match=1%3A6" in page.url
