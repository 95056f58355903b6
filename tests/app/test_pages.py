"""A page has one identity: title, script, address and view have one name; old names lead on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from urllib.parse import parse_qsl

from streamlit.testing.v1 import AppTest

from gpt2viz.app import pages
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.app.frame.saved_session import _opened
from gpt2viz.app.pages import Page
from gpt2viz.export import Session
from tests.app.cases import each
from tests.app.pages import ROOT, open_page

#: Every address of before -> the page and the mode that it leads to.
MOVED = {
    "attention": "attention",
    "inside_head": "head",
    "inside_a_head": "head",
    "compare_layers": "side_by_side?differs=layers",
    "layers": "side_by_side?differs=layers",
    "causal_mask": "side_by_side?differs=mask",
    "two_texts": "side_by_side?differs=text",
    "compare": "side_by_side?differs=text",
    "find_a_head": "find",
    "predictions": "predict?predict=next",
    "generate": "predict?predict=generate",
}


def title(at: AppTest) -> str:
    """What the open page is called, for those who hear it."""
    drawn = "".join(block.proto.body for block in at.get("html"))
    (found,) = re.findall(r'<h1 class="page-name">(.*?)</h1>', drawn)
    return str(found)


@each("page", pages.PAGES)
def test_a_page_is_a_script_that_calls_the_view_of_its_name(page: Page) -> None:
    source = (ROOT / page.path).read_text(encoding="utf-8")
    doc, *code = source.split('"""')[1:]
    view = f"from gpt2viz.app.views import {page.name}\n\n{page.name}.show()"
    assert "".join(code).strip() == view
    assert (import_module(f"gpt2viz.app.views.{page.name}").__doc__ or "").startswith(page.title)
    assert doc.startswith(f"{page.title}: ")


def test_each_name_is_of_one_page() -> None:
    names = [name for page in pages.PAGES for name in (page.address, *page.formerly)]
    assert len(names) == len(set(names)) > len(pages.PAGES) > len(pages.MENU) == 10
    assert {name for page in pages.PAGES for name in page.formerly} == set(MOVED)


@each("page", pages.PAGES)
def test_a_page_opens_as_what_it_is_called(page: Page) -> None:
    assert title(open_page(page.name)) == page.title


def moved(name: str, chosen: Mapping[str, str]) -> AppTest:
    """A visitor opens an address of before."""
    at = AppTest.from_file(str(ROOT / pages.ATTENTION.path), default_timeout=60)
    at.switch_page(str(ROOT / "pages" / f"{name}.py"))
    for parameter, value in chosen.items():
        at.query_params[parameter] = value
    at.run()
    assert not at.exception
    assert not at.warning
    return at


@each("name", MOVED)
def test_an_address_of_before_shows_the_view_of_now(name: str) -> None:
    page, _, mode = MOVED[name].partition("?")
    chosen = {"text": "A crane ate fish", "layer": "2", "causal": "false"}
    at = moved(name, chosen)
    assert pages.name_of(title(at)) == page
    assert at.query_params == chosen | dict(parse_qsl(mode))
    if mode:
        parameter, picked = mode.split("=")
        assert at.button_group(key=parameter).value == picked


@each("what", ["text", "head", "mask", "edits", "model"])
@each("name", ["compare", "two_texts"])
def test_what_differed_before_differs_now(name: str, what: str) -> None:
    at = moved(name, {"differs": what})
    assert at.query_params == {"differs": what}
    assert at.button_group(key="differs").value == what


@each(("name", "mode"), [("layers", "layers"), ("causal_mask", "mask")])
def test_a_page_of_before_is_one_mode_whatever_its_link_carried(name: str, mode: str) -> None:
    """Links carry the parameters of all pages."""
    at = moved(name, {"differs": "head", "layer": "1"})
    assert at.query_params == {"differs": mode, "layer": "1"}


@each(
    ("saved", "opens"),
    [
        *((name, opens) for name, opens in MOVED.items()),
        ("Inside a head", "head"),
        ("Layers", "side_by_side?differs=layers"),
        ("Causal mask", "side_by_side?differs=mask"),
        ("Two texts", "side_by_side?differs=text"),
        ("Find a head", "find"),
        ("Generate", "predict?predict=generate"),
        ("Side by side", "side_by_side"),
        ("What if", "what_if"),
    ],
)
def test_a_session_opens_by_the_name_it_was_saved_with(saved: str, opens: str) -> None:
    page, _, mode = opens.partition("?")
    found, asked = _opened(Session(saved, {"text": "A crane"}))
    assert found.name == page
    assert asked == {"text": "A crane"} | dict(parse_qsl(mode))


def test_the_readme_tells_of_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*(.*?)\*\* \|", readme, re.M)
    assert sorted(rows) == sorted(page.title for page in pages.PAGES)
    assert len([chapter for chapter in CHAPTERS.values() if not chapter.part]) == 14
    assert "| Fourteen short chapters, from tokens to the next word" in readme
