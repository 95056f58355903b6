"""The body below a page's frame reruns alone, and shows what a run of the whole page would show."""

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

#: The choices made on a page, in order, and whether each reruns the body alone.
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


class Session:
    """An open page without a browser: it sends choices to the server as a browser does."""

    def __init__(self, server: str, page: str, chosen: dict[str, Any]) -> None:
        self._visitor, self._page = Visitor(urlsplit(server).port or 0), page
        self.load(chosen)
        (self._script,) = (
            msg.navigation.page_script_hash for msg in self.messages() if msg.HasField("navigation")
        )

    def load(self, chosen: dict[str, Any]) -> None:
        """Draw the whole page from an address, as the browser's Back does; wait for progress."""
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
        """The messages of the last run of the page or of a part of it."""
        results = [ForwardMsg.FromString(raw) for raw in self.screen.raw]
        return results[max(n for n, msg in enumerate(results) if msg.HasField("new_session")) :]

    def deltas(self) -> list[Any]:
        return [msg.delta for msg in self.messages() if msg.HasField("delta")]

    def parts(self, kind: str) -> list[tuple[str, Any]]:
        """The fragment and the message of each widget or block of a kind."""
        results = []
        for delta in self.deltas():
            part = delta.add_block if kind == "popover" else delta.new_element
            if part.HasField(kind):
                results.append((delta.fragment_id, getattr(part, kind)))
        return results

    def body(self) -> dict[tuple[int, ...], bytes]:
        """The elements below the frame, by path, without progress indicators.

        The value of a select box is left out: the server sends it only once.
        """
        result = {}
        for msg in self.messages():
            part = msg.delta
            if not msg.HasField("delta") or not part.fragment_id or part.HasField("new_transient"):
                continue
            if part.new_element.HasField("selectbox"):
                part.new_element.ClearField("has_one_shot_effect")
                for field in ("set_value", "raw_value"):
                    part.new_element.selectbox.ClearField(field)
            result[tuple(msg.metadata.delta_path)] = part.SerializeToString(deterministic=True)
        top = max(path[:2] for path in result)
        return {path: part for path, part in result.items() if path[:2] == top}

    def pick(self, label: str, value: str = "") -> None:
        """Choose an option by its name, press a button, or open a popover."""
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
def open_session(server: str) -> Iterator[Any]:
    """Open a page in a session of its own."""
    sessions: list[Session] = []

    def start(page: str, chosen: dict[str, Any]) -> Session:
        sessions.append(Session(server, page, chosen))
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


#: A page, its kind of picture, and the choices made there.
CASES = [
    *((page, "matrix", steps) for page, steps in STEPS.items()),
    ("side_by_side", "lines", STEPS["side_by_side"][:3]),
]


def test_choice_redraws_the_body_as_a_full_run_would(
    open_session: Any, subtests: pytest.Subtests
) -> None:
    for page, picture, steps in CASES:
        with subtests.test(f"{page}, {picture}"):
            chosen = CHOSEN | {"picture": picture}
            session = open_session(page, chosen)
            first = session.body()
            for label, value, alone in steps:
                before, requested = session.body(), session.chosen
                session.pick(label, value)
                assert not session.screen.exceptions
                assert session.screen.status.startswith("FINISHED_FRAGMENT") == alone, label
                assert all(delta.fragment_id for delta in session.deltas()) == alone, label
                assert session.chosen != requested, label
                whole = open_session(page, session.chosen).body()
                assert session.body() == whole != before, label
            session.load(chosen)
            assert session.body() == first


def test_tokens_are_written_on_a_fresh_page(open_session: Any) -> None:
    session = open_session("predict", CHOSEN | {"predict": "generate"})
    session.pick("Write 10")
    assert session.screen.status.startswith("FINISHED_FRAGMENT")
    assert len(session.chosen["new"].split(",")) == 1 + 10
    assert session.body() == open_session("predict", session.chosen).body()


def test_share_and_save_follow_choices_in_the_body(open_session: Any) -> None:
    session = open_session("side_by_side", CHOSEN)
    frame = session.screen
    session.pick(MODE, "Heads")
    for name, within in (("Share", "differs=head"), ("Save", "Weights of B minus weights of A")):
        session.screen = frame  # where the buttons are
        session.pick(name)
        assert session.screen.status.startswith("FINISHED_FRAGMENT")
        assert within in str(session.deltas())


def test_invalid_choice_is_reported_when_first_read(open_session: Any) -> None:
    session = open_session("side_by_side", CHOSEN | {"layer2": "99"})
    assert "be shown here" not in str(session.deltas())
    session.pick(MODE, "Heads")
    assert session.screen.status.startswith("FINISHED_FRAGMENT")
    assert not session.screen.exceptions
    assert str(session.deltas()).count("be shown here") == 1
    session.pick("Head of B", "1")
    assert "be shown here" not in str(session.deltas())


def test_note_on_a_frame_parameter_goes_with_the_next_choice(open_session: Any) -> None:
    session = open_session("head", CHOSEN | {"query": "99"})
    assert "query: 99 can" in str(session.deltas())
    session.pick("Head", "3")
    assert session.screen.status == "FINISHED_SUCCESSFULLY"
    assert "be shown here" not in str(session.deltas())
    assert session.body() == open_session("head", session.chosen).body()
