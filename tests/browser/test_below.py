"""The part below a page's frame, which runs alone: it shows what the whole page would show."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.soak.visitor import Visitor

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")

CHOSEN = {"text": "A crane ate fish", "layer": "1", "head": "0"}
MODE = "What to show"

#: What is picked on a page, one after the other, and whether what is below the frame runs alone.
STEPS = {
    "head": [("Head", "3", True)],
    "side_by_side": [
        ("Head", "2", True),
        (MODE, "Causal mask", True),
        ("Layer", "2", True),
        (MODE, "Heads", True),
        ("Layer of B", "0", True),
        (MODE, "Sentences", True),
        ("Head", "3", True),
    ],
    "find": [
        ("Only layers", "1", True),
        ("Back to the best 4", "", True),
        (MODE, "Who attends from here to there?", False),
        ("Only layers", "2", True),
        (MODE, "Draw a pattern", False),
        ("Only layers", "3", True),
        (MODE, "Similar heads", True),
        ("Head", "3", True),
        (MODE, "Groups of similar heads", False),
        (MODE, "Wiring", False),
        ("Edges", "Into Q", True),
    ],
    "predict": [
        ("Write 10", "", False),
        ("Head", "2", True),
        ("Start over", "", True),
        ("Step", "", True),
        ("Make it the sentence", "", False),
        (MODE, "Next token", False),
    ],
    "what_if": [
        ("Head", "2", True),
        (MODE, "Patching", False),
        ("Put", "Second into first", True),
        ("Shown below the maps", "Paths into the head", True),
    ],
}


class Tab:
    """A page that is open in a browser, told what is picked as a browser tells the server."""

    def __init__(self, server: str, page: str, chosen: dict[str, Any]) -> None:
        self._visitor, self._page = Visitor(urlsplit(server).port or 0), page
        self.go(chosen)
        (self._script,) = (
            msg.navigation.page_script_hash for msg in self.messages() if msg.HasField("navigation")
        )

    def go(self, chosen: dict[str, Any]) -> None:
        """Draw the whole page from an address, as the browser's Back does, once all is computed."""
        until = time.monotonic() + 120
        self.screen = self._visitor.open(self._page, chosen)
        while self.parts("progress") and time.monotonic() < until:
            time.sleep(0.5)
            self.screen = self._visitor.open(self._page, chosen)

    @property
    def chosen(self) -> dict[str, str]:
        """The address's parameters."""
        return dict(parse_qsl(self._visitor._query))

    def messages(self) -> list[ForwardMsg]:
        """The messages sent when the page, or a part of it, was drawn last."""
        results = [ForwardMsg.FromString(raw) for raw in self.screen.raw]
        return results[max(n for n, msg in enumerate(results) if msg.HasField("new_session")) :]

    def deltas(self) -> list[Any]:
        return [msg.delta for msg in self.messages() if msg.HasField("delta")]

    def parts(self, of: str) -> list[tuple[str, Any]]:
        """The fragment and what it is of each widget or block of a kind."""
        results = []
        for delta in self.deltas():
            sent = delta.add_block if of == "popover" else delta.new_element
            if sent.HasField(of):
                results.append((delta.fragment_id, getattr(sent, of)))
        return results

    def body(self) -> dict[tuple[int, ...], bytes]:
        """All that stands below the frame, by its place, but for what says that it computes.

        A box is told its value once, and then holds it.
        """
        result = {}
        for msg in self.messages():
            sent = msg.delta
            if not msg.HasField("delta") or not sent.fragment_id or sent.HasField("new_transient"):
                continue
            if sent.new_element.HasField("selectbox"):
                sent.new_element.ClearField("has_one_shot_effect")
                for message in ("set_value", "raw_value"):
                    sent.new_element.selectbox.ClearField(message)
            result[tuple(msg.metadata.delta_path)] = sent.SerializeToString(deterministic=True)
        top = max(path[:2] for path in result)
        return {path: sent for path, sent in result.items() if path[:2] == top}

    def pick(self, label: str, value: str = "") -> None:
        """Choose one of several by its name, press a button, or open what one of them opens."""
        results = [
            (kind, fragment, part)
            for kind in ("button_group", "button", "popover")
            for fragment, part in self.parts(kind)
            if part.label == label
        ]
        kind, fragment, part = results[-1]
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_script_hash = self._visitor._query, self._script
        state.fragment_id = fragment
        text = state.widget_states.widgets.add()
        text.id = part.id
        if kind == "button_group":
            text.string_array_value.data.append(value)
        elif kind == "button":
            text.trigger_value = True
        else:
            text.bool_value = True
        self._visitor._socket.send(message.SerializeToString())
        self.screen = self._visitor._receive()

    def close(self) -> None:
        self._visitor.close()


@pytest.fixture
def tabs(server: str) -> Iterator[Any]:
    """Opens pages, each in a session of its own."""
    opened: list[Tab] = []

    def tab(page: str, chosen: dict[str, Any]) -> Tab:
        opened.append(Tab(server, page, chosen))
        return opened[-1]

    yield tab
    for session in opened:
        session.close()


#: A page's picture and what is picked there.
EITHER = [
    *((page, "matrix", steps) for page, steps in STEPS.items()),
    ("side_by_side", "lines", STEPS["side_by_side"][:3]),
]


def test_what_is_chosen_below_changes_what_the_whole_page_would(
    tabs: Any, subtests: pytest.Subtests
) -> None:
    for page, picture, steps in EITHER:
        with subtests.test(f"{page}, {picture}"):
            chosen = CHOSEN | {"picture": picture}
            tab = tabs(page, chosen)
            first = tab.body()
            for label, value, alone in steps:
                before, requested = tab.body(), tab.chosen
                tab.pick(label, value)
                assert not tab.screen.exceptions
                assert tab.screen.status.startswith("FINISHED_FRAGMENT") == alone, label
                assert all(delta.fragment_id for delta in tab.deltas()) == alone, label
                assert tab.chosen != requested, label
                whole = tabs(page, tab.chosen).body()
                assert tab.body() == whole != before, label
            tab.go(chosen)
            assert tab.body() == first


def test_what_is_written_on_a_page_that_was_just_opened(tabs: Any) -> None:
    tab = tabs("predict", CHOSEN | {"predict": "generate"})
    tab.pick("Write 10")
    assert tab.screen.status.startswith("FINISHED_FRAGMENT")
    assert len(tab.chosen["new"].split(",")) == 1 + 10
    assert tab.body() == tabs("predict", tab.chosen).body()


def test_share_and_save_have_what_was_chosen_below(tabs: Any) -> None:
    tab = tabs("side_by_side", CHOSEN)
    frame = tab.screen
    tab.pick(MODE, "Heads")
    for name, within in (("Share", "differs=head"), ("Save", "Weights of B minus weights of A")):
        tab.screen = frame  # where the buttons are
        tab.pick(name)
        assert tab.screen.status.startswith("FINISHED_FRAGMENT")
        assert within in str(tab.deltas())


def test_a_choice_that_can_not_be_shown_is_told_where_it_is_first_read(tabs: Any) -> None:
    tab = tabs("side_by_side", CHOSEN | {"layer2": "99"})
    assert "be shown here" not in str(tab.deltas())
    tab.pick(MODE, "Heads")
    assert tab.screen.status.startswith("FINISHED_FRAGMENT")
    assert not tab.screen.exceptions
    assert str(tab.deltas()).count("be shown here") == 1
    tab.pick("Head of B", "1")
    assert "be shown here" not in str(tab.deltas())


def test_a_note_about_what_the_frame_reads_goes_with_the_next_choice(tabs: Any) -> None:
    tab = tabs("head", CHOSEN | {"query": "99"})
    assert "query: 99 can" in str(tab.deltas())
    tab.pick("Head", "3")
    assert tab.screen.status == "FINISHED_SUCCESSFULLY"
    assert "be shown here" not in str(tab.deltas())
    assert tab.body() == tabs("head", tab.chosen).body()
