"""A stranger's model in a real browser: its card loads nothing, and its sections open by link."""

from __future__ import annotations

from urllib.parse import urlencode

from playwright.sync_api import Browser, expect

from gpt2viz.app.views.models import SECTIONS
from tests.browser.conftest import Visitor, go, seen_by_axe, settle


def test_a_strangers_model(browser: Browser, more_models: str) -> None:
    visitor = Visitor(browser, more_models)
    page = visitor.tab
    page.set_viewport_size({"width": 1000, "height": 900})
    for part in ("card", "tokenizer", "positions", "cost"):
        query = {"part": part, "model": "mine", "text": "A crane", "word": "crane"}
        go(page, more_models, f"/models?{urlencode(query)}")
        settle(page)
        chosen = page.get_by_role("radio", name=SECTIONS[part], exact=True)
        expect(chosen).to_have_attribute("aria-checked", "true")
        expect(page.locator(".stAlert")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1000
        if part == "card":
            card = page.locator(".st-key-card")
            expect(page.get_by_role("heading", name="Mine", exact=True)).to_be_visible()
            assert page.evaluate("typeof canary") == "undefined"
            assert card.locator(":is(img, iframe, script)").count() == 0
            expect(card.get_by_text("a link (http:")).to_be_visible()
            assert card.locator("a:not([href^='#']), .katex, svg.flowchart").count() == 0
            assert card.locator("[class*='ColoredText']").count() == 0
            expect(card.locator("code", has_text=":red[x]").first).to_be_visible()
        assert not seen_by_axe(page), part
    assert not visitor.complaints  # nobody else was asked
    visitor.context.close()
