"""The switch that puts ``<|endoftext|>`` first, with real clicks and from page to page."""

from __future__ import annotations

import json

from numpy.testing import assert_allclose
from playwright.sync_api import expect

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import SHADE
from tests.browser.conftest import open_from_menu, settle
from tests.browser.test_browser import Visit, click_cell, drawn


def test_the_switch_goes_along_from_page_to_page(walk: Visit) -> None:
    page = walk("", query=1)
    page.locator("label", has_text="first").click()
    page.wait_for_timeout(300)
    settle(page)
    chips = page.locator(".st-key-tokens [role=radio]")
    expect(chips.first).to_contain_text("<|endoftext|> position 0")
    assert chips.nth(2).get_attribute("aria-checked") == "true"
    special = json.loads((BUNDLED / "config.json").read_text(encoding="utf-8"))["eos_token_id"]
    model = gpt2viz.load_model()
    trace = gpt2viz.trace(model, [special, *model.tokenizer.encode("A crane ate fish")])
    for panel in drawn(page, "heads"):
        layer, head = map(int, panel["name"].split("."))
        assert_allclose(panel["z"], trace.stage("weights", layer)[0, head], atol=SHADE)
    click_cell(page, "heads", row=0, column=0, panel=0)
    expected = trace.stage("weights", 0)[0]
    open_from_menu(page, "What if")
    page.wait_for_url("**/what_if?*endoftext=true*")
    settle(page)
    expect(chips.first).to_contain_text("<|endoftext|> position 0")
    assert_allclose(drawn(page, "whatif")[0]["z"], expected[0], atol=1e-6)
    expect(page.get_by_text("token 0 is not from your sentence")).to_be_visible()
