"""Save on every page: whatever is chosen there, its files are offered, each under its own name."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.app.course.contents import CHAPTERS
from tests.app.pages import PAGES, WITHOUT, open_page

#: What can be chosen from in Save, by the list's key.
LISTS = ("save_picture", "save_table", "save_run")
#: Addresses that together open every page, and each chapter of the Textbook.
VIEWS: list[tuple[str, dict[str, str]]] = [
    (page, {}) for page in [*PAGES, *WITHOUT] if page != "textbook"
]
VIEWS += [("textbook", {"chapter": name}) for name in CHAPTERS]
VIEWS += [("attention", {"picture": "lines"}), ("attention", {"layer": "1", "head": "3"})]


def open_save(page: str, **view: str) -> AppTest:
    """What Save opens into once the page's script has run to the end."""
    at = open_page(page, text="the cat saw the cat", **view)
    opened = AppTest.from_function(_save, default_timeout=60)
    for name in ("_shown", "_address", "text", "model"):
        if name in at.session_state:
            opened.session_state[name] = at.session_state[name]
    return opened.run()


def _save() -> None:
    from gpt2viz.app.frame import save

    save._body()


def choices(at: AppTest) -> dict[str, Any]:
    return {box.key: box.options for box in at.selectbox if box.key in LISTS}


@pytest.mark.parametrize(("page", "view"), VIEWS, ids=str)
def test_each_entry_of_each_list_can_be_chosen(page: str, view: dict[str, str]) -> None:
    at = open_save(page, **view)
    tabs = [tab.label for tab in at.tabs]
    shown = at.session_state["_shown"]
    assert ("Picture" in tabs) == bool(shown.pictures)
    assert ("Table" in tabs) == bool(shown.tables)
    for key, options in choices(at).items():
        for name in options:
            at.selectbox(key=key).select(name).run()
            assert not at.exception, (key, name, at.exception)
            assert at.selectbox(key=key).value == name
            assert [tab.label for tab in at.tabs] == tabs
    assert tabs[-2:] == ["Page", "Open"]
