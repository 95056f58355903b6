"""Matrix or lines: chosen in the address, and lines only where they can be told apart."""

from __future__ import annotations

import pytest

from tests.app.pages import open_page

PAGES = {"attention": "one_head", "inside": "stage_weights", "compare": "layers_chart"}
PAGES |= {"mask": "on_off"}


def charts(at: object) -> set[str]:
    return {c.proto.id.split("-")[-1] for c in at.get("plotly_chart")}  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES)
def test_lines_take_the_place_of_the_matrix(page: str) -> None:
    assert PAGES[page] in charts(open_page(page))
    assert PAGES[page] not in charts(open_page(page, picture="lines"))


def test_four_heads_at_most_and_none_twice() -> None:
    at = open_page("attention", picture="lines", head="2", more="0,2,3,4,5")
    assert any("Head 2, 0, 3, 4" in text.value for text in at.markdown)
