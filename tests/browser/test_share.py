"""Share in a real browser: the link, and the picture that comes down."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import settle
from tests.browser.test_browser import Visit


@pytest.mark.parametrize("dark", [False, True])
def test_a_link_and_a_picture_for_a_slide(walk: Visit, dark: bool) -> None:
    """The visitor's own browser makes it; nobody else is asked, as ``walk`` watches."""
    page = walk("", dark=dark, text="Dog bites man", layer=1, head=3, query=1)
    page.locator(".st-key-share button").filter(visible=True).click()
    body = page.locator(".st-key-share_body")
    link = body.locator("[data-testid='stCode'] code").inner_text()
    for said in ("text=Dog+bites+man", "layer=1", "head=3", "query=1"):
        assert said in link
    settle(page)
    with page.expect_download(timeout=30_000) as found:
        body.get_by_role("button", name="PNG").click()
    assert found.value.suggested_filename == "gpt2viz_stories_Dog-bites-man_L1H3_card_causal.png"
    picture = Path(found.value.path()).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (1600, 900)
    expect(body).to_be_visible()
