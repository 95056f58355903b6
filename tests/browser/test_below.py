"""What stands below a page's frame and runs alone: it shows what the whole page would show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

import gpt2viz
from gpt2viz.app.frame.examples import EXAMPLES, find
from tests.mutants import Mutant
from tests.soak.visitor import Screen, Visitor

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")

CHOSEN = {"text": "A crane ate fish", "layer": "1", "head": "0"}


@pytest.fixture
def visitor(server: str) -> Iterator[Visitor]:
    found = Visitor(urlsplit(server).port or 0)
    yield found
    found.close()


def deltas(screen: Screen) -> list[Any]:
    return [m.delta for raw in screen.raw if (m := ForwardMsg.FromString(raw)).HasField("delta")]


def texts(screen: Screen) -> list[str]:
    """What is written below the frame, in order."""
    return [
        one.new_element.markdown.body
        for one in deltas(screen)
        if one.fragment_id and one.new_element.WhichOneof("type") == "markdown"
    ]


def drawn(screen: Screen) -> list[tuple[tuple[int, ...], Any]]:
    """Every element as it was drawn, one after the other, each with its place."""
    said = [m for raw in screen.raw if (m := ForwardMsg.FromString(raw)).HasField("delta")]
    return [(tuple(m.metadata.delta_path), m.delta.new_element) for m in said]


def pick(visitor: Visitor, page: Screen, label: str, value: str) -> Screen:
    """Choose one of several buttons, as a browser tells the server."""
    (found,) = [
        one
        for one in deltas(page)
        if one.new_element.WhichOneof("type") == "button_group"
        and one.new_element.button_group.label == label
    ]
    message = BackMsg()
    state = message.rerun_script
    state.query_string, state.page_name = visitor._query, visitor._page
    state.fragment_id = found.fragment_id
    chosen = state.widget_states.widgets.add()
    chosen.id = found.new_element.button_group.id
    chosen.string_array_value.data.append(value)
    visitor._socket.send(message.SerializeToString())
    return visitor._receive()


@pytest.mark.parametrize(
    ("of", "label", "value", "changed"),
    [("head", "Head", "3", {"head": "3"}), ("", "Picture", "Lines", {"picture": "lines"})],
)
def test_what_is_chosen_below_changes_what_the_whole_page_would(
    visitor: Visitor, of: str, label: str, value: str, changed: dict[str, str]
) -> None:
    page = visitor.open(of, CHOSEN)
    part = pick(visitor, page, label, value)
    assert part.status == "FINISHED_FRAGMENT_RUN_SUCCESSFULLY"
    assert all(one.fragment_id for one in deltas(part))
    assert dict(parse_qsl(visitor._query)) == CHOSEN | changed
    whole = visitor.open(of, CHOSEN | changed)
    assert part.canvases
    assert part.canvases == whole.canvases != page.canvases
    assert texts(part) == texts(whole) != texts(page)


def test_what_the_frame_says_of_a_head_goes_with_it(visitor: Visitor) -> None:
    example = EXAMPLES[1]
    seen = find(example, gpt2viz.trace(gpt2viz.load_model(), example.text))
    assert seen
    layer, head, query = seen[:3]
    page = visitor.open(
        "head", {"text": example.text, "layer": layer, "head": head, "query": query}
    )
    whole = pick(visitor, page, "Head", str((head + 1) % 4))
    assert whole.status == "FINISHED_SUCCESSFULLY"
    assert ["than any other head" in "".join(map(str, deltas(one))) for one in (page, whole)] == [
        True,
        False,
    ]


def test_a_note_about_the_address_goes_with_the_next_choice(visitor: Visitor) -> None:
    page = visitor.open("head", CHOSEN | {"query": "99", "key": "98"})
    notes = [(place, one.alert.body) for place, one in drawn(page) if one.HasField("alert")]
    place, said = notes[-1]
    assert "query: 99 can't be shown here" in said
    assert "key: 98 can't be shown here" in said
    part = pick(visitor, page, "Head", "3")
    assert [one.WhichOneof("type") for where, one in drawn(part) if where == place] == ["empty"]


#: Faults that these tests notice: see ``tests.mutants``.
MUTANTS = (
    Mutant(
        "a note about the address stays where a part is drawn alone",
        "app/frame/below.py",
        "        address.forget_notes()\n",
        "        pass\n",
        "test_a_note_about_the_address_goes_with_the_next_choice",
    ),
    Mutant(
        "what is said of another head stays",
        "app/frame/below.py",
        "if frame.said != examples.says(view.trace):",
        "if False:",
        "test_what_the_frame_says_of_a_head_goes_with_it",
    ),
    Mutant(
        "words that a part links stay linked for the next time",
        "app/frame/below.py",
        "    prose.back_to(frame.linked)\n",
        "",
        "test_what_is_chosen_below_changes_what_the_whole_page_would",
    ),
)
