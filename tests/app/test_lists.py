"""For each entry of each list, the page is complete and describes that entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.app import address, pages, parameters
from gpt2viz.app.parameters import SelectParam
from gpt2viz.pictures.picture import Picture
from tests.app.cases import each
from tests.app.pages import VIEWS, notices, open_page, page_text, pictures

TEXT = "The cat sat on the cat"
#: Pages with lists of their own. The sections of Models have none.
WITH_LISTS = (pages.HEAD, pages.FIND, pages.WHAT_IF, pages.PREDICT, pages.TRAINING)
OPENED = [view for view in VIEWS if view.partition("?")[0] in {page.name for page in WITH_LISTS}]
OPENED.remove("predict?predict=generate")  # it has the lists of the other mode
#: Choices on every page, modes, which are in ``VIEWS``, and the style of heads.
ELSEWHERE = {"model", "layer", "head", "query", "tour", "picture", "seed"}
ELSEWHERE |= {parameter.name for parameter in parameters.MODE.values()}
#: By view, lists of tokens in which any other token can be typed.
TOKENS = {
    "head?see=weights": ["token"],
    "predict?predict=next": ["explain", "minus"],
    "what_if?what_if=depends": ["right", "wrong"],
}
#: Lists whose entries appear on the page as in the address, and those that appear in its text.
NAMED = {"token", "explain", "minus", "right", "wrong", "habit", "rank", "against", "score"}
IN_TEXT = NAMED - {"rank"}  # which appears in pictures and tables
#: Lists in which two entries may give the same page, such as top-k 100 and 200.
SAME = {"top_k", "top_p", "temperature", "most", "alike", "n", "step"}


def all_text(at: AppTest) -> str:
    """All text of a page, in words, pictures and tables."""
    tables = [frame.to_csv() for frame in at.session_state["_shown"].tables.values()]
    return "\n".join(
        [page_text(at), *pictures(at).values(), *tables, *(m.value for m in at.metric)]
    )


def has_numbers(picture: Picture) -> bool:
    """True if a picture's table would have rows; making it takes as long as the page."""
    matrices = (panel.values for panel in picture.matrices)
    return any((values == values).any() for values in matrices) or any(
        len(series.x) for series in picture.series
    )


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> dict[str, Sequence[Any]]:
    """The entries that a page offers in each list, by its name in the address."""
    offered: dict[str, Sequence[Any]] = {}
    choice = address.choice

    def record(parameter: SelectParam, options: Sequence[Any], *rest: Any, **more: Any) -> Any:
        offered[parameter.name] = options
        return choice(parameter, options, *rest, **more)

    monkeypatch.setattr(address, "choice", record)
    return offered


@each("view", OPENED)
def test_every_list_entry_opens_and_is_named(view: str, lists: dict[str, Sequence[Any]]) -> None:
    lists.clear()
    first = open_page(view, text=TEXT)
    page_lists = {name: list(entries) for name, entries in lists.items() if name not in ELSEWHERE}
    for name in TOKENS.get(view, ()):
        (box,) = (box for box in first.selectbox if box.key == name)
        others = {"nothing", *(first.selectbox(key=key).value for key in TOKENS[view])}
        page_lists[name] = [option for option in box.options if option not in others][:3]
    problems = []
    for name, entries in page_lists.items():
        words: dict[Any, str] = {}
        n_first = 1 if name in SAME else 4
        for entry in entries if len(entries) <= 5 * n_first else [*entries[:n_first], entries[-1]]:
            at = first
            if first.session_state[name] != entry:
                at = open_page(view, text=TEXT, **{name: str(entry)})
            words[entry] = page_text(at) if name in IN_TEXT else all_text(at)
            drawn = at.session_state["_shown"].pictures
            empty = [key for key, picture in drawn.items() if not has_numbers(picture)]
            if (view, entry) == ("find?find=pattern", "empty"):
                continue  # an empty pattern has no picture
            if at.session_state[name] != entry or notices(at) != notices(first):
                problems.append(f"{name}: {entry} isn't shown: {notices(at)}")
            if len(pictures(at)) < bool(pictures(first)) or empty:
                problems.append(f"{name}: {entry} has no picture, or an empty one: {empty}")
            if name in NAMED and str(entry) not in all_text(at):
                problems.append(f"{name}: {entry} isn't named")
        if len(set(words.values())) < len(words) and name not in SAME:
            problems.append(f"{name}: several entries give the same page")
    assert not problems, "\n".join(problems)
