"""What Streamlit is spared comes out as it did."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
from streamlit import cursor
from streamlit.navigation import page
from streamlit.proto.Element_pb2 import Element

from gpt2viz.app import compat, pages, sparing
from tests.app.pages import open_page
from tests.mutants import Mutant


def told(place: cursor.Cursor) -> dict[str, Any]:
    """All that a place holds."""
    return {**vars(place), "_transient_elements": dict(place.transient_elements.items())}


@pytest.mark.parametrize(
    "place", [cursor.RunningCursor(0, (1, 2)), cursor.LockedCursor(1, (3,), 4)], ids=["on", "fixed"]
)
def test_the_copy_of_a_place_is_a_place_of_its_own(
    place: cursor.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.transient_elements[2] = Element()
    place.get_transient_cursor()
    monkeypatch.delattr(cursor.Cursor, "__deepcopy__", raising=False)
    by_streamlit = deepcopy(place)
    assert compat.copy_places_at_once()
    made = deepcopy(place)
    assert type(made) is type(place)
    assert told(made) == told(by_streamlit) == told(place)
    assert made.transient_elements[2] is not place.transient_elements[2]
    made.transient_elements[3] = Element()
    made.open_block()
    made.lock_element()
    assert told(place) == told(by_streamlit)


def test_a_script_is_looked_up_once_and_run_as_often_as_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = []

    def create(script: Path, default: bool) -> SimpleNamespace:
        looked_up.append((script.name, default))
        return SimpleNamespace(script=script, ran=False)

    monkeypatch.setattr(page, "_create_page", create)
    assert compat.know_pages()
    made: list[Any] = [page._create_page("one.py") for _ in range(3)]
    made[0].ran = True
    assert [one.ran for one in made] == [True, False, False]
    assert page._create_page(Path("one.py"), default=True).script == Path("one.py")  # type: ignore[attr-defined]
    assert looked_up == [("one.py", False), ("one.py", True)]


def test_the_menu_leads_to_every_page_with_all_that_is_chosen() -> None:
    assert sparing.begin()
    visitor = open_page("head", text="a b", layer="1")
    for _ in range(2):
        links = [one.proto for one in visitor.get("page_link")][: len(pages.MENU)]
        assert [one.page for one in links] == [one.address for one in pages.MENU]
        assert len({one.page_script_hash for one in links}) == len(links)
        for link in links:
            assert parse_qs(link.query_string) == {"text": ["a b"], "layer": ["1"]}
        visitor.run()


#: Faults that these tests notice: see ``tests.mutants``.
MUTANTS = (
    Mutant(
        "a copied place shares what is shown for a moment",
        "app/compat.py",
        "made._transient_elements = cursor.SparseList()",
        "pass",
        "test_the_copy_of_a_place_is_a_place_of_its_own",
    ),
)
