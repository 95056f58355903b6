"""A page has one identity: title, script, address and view have one name; old names lead on."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.app import pages
from gpt2viz.app.frame.saved_session import _path
from gpt2viz.app.pages import Page
from gpt2viz.export import Session
from tests.app.pages import ROOT, open_page
from tests.mutants import Mutant

MOVED = [(name, page) for page in pages.PAGES for name in page.formerly]


def title(at: AppTest) -> str:
    """What the open page is called, for those who hear it."""
    drawn = "".join(block.proto.body for block in at.get("html"))
    (found,) = re.findall(r'<h1 class="page-name">(.*?)</h1>', drawn)
    return str(found)


def named(page: Page) -> str:
    return page.name


@pytest.mark.parametrize("page", pages.PAGES, ids=named)
def test_a_page_is_a_script_that_calls_the_view_of_its_name(page: Page) -> None:
    source = (ROOT / page.path).read_text(encoding="utf-8")
    doc, *code = source.split('"""')[1:]
    view = f"from gpt2viz.app.views import {page.name}\n\n{page.name}.show()"
    assert "".join(code).strip() == view
    assert (import_module(f"gpt2viz.app.views.{page.name}").__doc__ or "").startswith(page.title)
    assert doc.startswith(f"{page.title}: ")


def test_each_name_is_of_one_page() -> None:
    names = [name for page in pages.PAGES for name in (page.name, *page.formerly)]
    assert len(names) == len(set(names)) > len(pages.PAGES) > 10
    assert [page for group in pages.MENU.values() for page in group] == list(pages.PAGES)


@pytest.mark.parametrize("page", pages.PAGES, ids=named)
def test_a_page_opens_as_what_it_is_called(page: Page) -> None:
    assert title(open_page(page.name)) == page.title


@pytest.mark.parametrize(("name", "page"), MOVED, ids=[name for name, _ in MOVED])
def test_an_address_of_before_shows_the_page_of_now(name: str, page: Page) -> None:
    at = AppTest.from_file(str(ROOT / pages.ATTENTION.path), default_timeout=60)
    at.switch_page(str(ROOT / "pages" / f"{name}.py"))
    chosen = {"text": "A crane ate fish", "layer": "2", "causal": "false"}
    for parameter, value in chosen.items():
        at.query_params[parameter] = value
    at.run()
    assert not at.exception
    assert not at.warning
    assert title(at) == page.title
    assert chosen.items() <= at.query_params.items()


@pytest.mark.parametrize("name", ["Layers", "layers", "compare_layers", "Two texts", "Find a head"])
def test_a_session_opens_by_the_name_it_was_saved_with(name: str) -> None:
    wanted = {"Two texts": pages.COMPARE, "Find a head": pages.FIND_A_HEAD}
    assert _path(Session(name, {})) == wanted.get(name, pages.LAYERS).path


def test_the_readme_tells_of_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*(.*?)\*\* \|", readme, re.M)
    assert sorted(rows) == sorted(page.title for page in pages.PAGES)


#: Faults that these tests notice: see ``tests.mutants``.
MUTANTS = (
    Mutant(
        "an old link forgets what it asks for",
        "app/views/moved.py",
        "query_params=st.query_params.to_dict()",
        "query_params={}",
        "test_an_address_of_before_shows_the_page_of_now",
    ),
)
