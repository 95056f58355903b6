"""axe-core finds nothing serious on any page, light or dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import settle
from tests.browser.test_browser import PAGES


@pytest.mark.parametrize("path", PAGES)
def test_nothing_serious_stands_in_anyones_way(visit: Callable[..., Page], path: str) -> None:
    page = visit(path, text="Dog bites man")
    look(page)
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".stApp")).to_have_css("background-color", "rgb(18, 20, 28)")
    page.wait_for_timeout(500)  # the new theme asks for another run
    settle(page)
    look(page, runOnly=["color-contrast"])  # all that a theme changes


def look(page: Page, **options: Any) -> None:
    """Let axe-core look at what is on screen now."""
    found = Axe().run(page, options=options).response
    assert found["passes"]  # it did look
    assert [
        f"{broken['id']}: {node['html'][:200]}"
        for broken in found["violations"]
        if broken["impact"] in ("serious", "critical")
        for node in broken["nodes"]
    ] == []
