"""A page's title, script, address and view share one name."""

from __future__ import annotations

import re
from importlib import import_module

from gpt2viz.app import pages
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.app.frame.save import _saved_page
from gpt2viz.app.pages import Page
from gpt2viz.export import Session
from tests.app.cases import each
from tests.app.pages import ROOT


@each("page", pages.PAGES)
def test_page_script_calls_the_view_of_its_name(page: Page) -> None:
    source = (ROOT / page.path).read_text(encoding="utf-8")
    doc, *code = source.split('"""')[1:]
    view = f"from gpt2viz.app.views import {page.name}\n\n{page.name}.show()"
    assert "".join(code).strip() == view
    assert f"{page.title}: " in (import_module(f"gpt2viz.app.views.{page.name}").__doc__ or "")
    assert doc.startswith(f"{page.title}: ")


def test_page_addresses_are_unique() -> None:
    assert len({page.address for page in pages.PAGES}) == len(pages.PAGES) > len(pages.MENU)


@each("saved", [*(page.title for page in pages.PAGES), "side_by_side"])
def test_session_opens_the_page_it_was_saved_on(saved: str) -> None:
    assert _saved_page(Session(saved, {})).name == pages.name_of(saved)


def test_readme_lists_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*(.*?)\*\* \|", readme, re.M)
    assert sorted(rows) == sorted(page.title for page in pages.PAGES)
    assert f"A map, then {len(CHAPTERS) - 1} short chapters" in readme
