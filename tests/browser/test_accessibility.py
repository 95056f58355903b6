"""axe-core finds nothing serious on any page, light or dark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.test_browser import PAGES


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_nothing_serious_stands_in_anyones_way(
    visit: Callable[..., Page], path: str, dark: bool
) -> None:
    page = visit(path, dark=dark, text="Dog bites man")
    found = Axe().run(page).response
    assert found["passes"]  # it did look
    assert [
        f"{broken['id']}: {node['html'][:200]}"
        for broken in found["violations"]
        if broken["impact"] in ("serious", "critical")
        for node in broken["nodes"]
    ] == []
