"""What Streamlit is spared comes out as it did; pages are drawn in turn."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
from starlette.testclient import TestClient
from streamlit import config, cursor
from streamlit.navigation import page
from streamlit.proto.Element_pb2 import Element
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.web.server.starlette import starlette_static_routes

from gpt2viz.app import compat, gauges, pages, sparing
from gpt2viz.app.turns import Turns
from tests.app.cases import each
from tests.app.pages import open_page


def told(place: cursor.Cursor) -> dict[str, Any]:
    """All that a place holds."""
    return {**vars(place), "_transient_elements": dict(place.transient_elements.items())}


@each("place", [cursor.RunningCursor(0, (1, 2)), cursor.LockedCursor(1, (3,), 4)])
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


def session(asked: Queue[Callable[[], None]]) -> SimpleNamespace:
    """One whose loop does what it is to do later as soon as it is looked after."""
    return SimpleNamespace(
        _event_loop=SimpleNamespace(call_later=lambda _seconds, do: asked.put(do))
    )


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Queue[Callable[[], None]]:
    """What the server's loop is asked to do, once messages are handed over together."""
    asked: Queue[Callable[[], None]] = Queue()
    monkeypatch.setattr(AppSession, "_call_soon_on_event_loop", lambda _session, do: asked.put(do))
    monkeypatch.setattr(Runtime, "_enqueued_some_message", lambda server: server.told.append(1))
    assert compat.hand_over_together()
    return asked


def test_messages_come_together_and_in_order(handed: Queue[Callable[[], None]]) -> None:
    hand_over: Any = AppSession._call_soon_on_event_loop
    one, other = session(handed), session(handed)
    done: list[int] = []
    for n in range(5):
        hand_over(one, partial(done.append, n))
    hand_over(other, partial(done.append, 9))
    assert handed.qsize() == 2  # one for each session
    handed.get_nowait()()
    assert done == [0, 1, 2, 3, 4]
    handed.get_nowait()()
    assert done.pop() == 9
    hand_over(one, lambda: 1 // 0)
    hand_over(one, partial(done.append, 5))
    assert handed.qsize() == 2  # it looks again by itself
    with pytest.raises(ZeroDivisionError):
        handed.get_nowait()()
    handed.get_nowait()()  # the other has nothing more
    handed.get_nowait()()  # what came after the one that failed
    assert done == [0, 1, 2, 3, 4, 5]
    handed.get_nowait()()
    assert handed.empty()  # nothing came for a moment
    hand_over(one, partial(done.append, 6))
    handed.get_nowait()()
    assert done.pop() == 6


def test_a_message_that_comes_just_before_the_loop_stops_looking(
    handed: Queue[Callable[[], None]],
) -> None:
    """Whoever handed it over saw that the loop was still to look, and didn't ask."""
    done: list[int] = []

    class Late(SimpleNamespace):
        def __setattr__(self, name: str, value: object) -> None:
            if name == compat._COMING and value is False and done == [1]:
                vars(self)[compat._HANDED].append(partial(done.append, 2))
            super().__setattr__(name, value)

    hand_over: Any = AppSession._call_soon_on_event_loop
    hand_over(Late(**vars(session(handed))), partial(done.append, 1))
    while not handed.empty():
        handed.get_nowait()()
    assert done == [1, 2]


def test_no_message_is_lost_between_threads(handed: Queue[Callable[[], None]]) -> None:
    hand_over: Any = AppSession._call_soon_on_event_loop
    one = session(handed)
    done: list[tuple[int, int]] = []

    def send(by: int) -> None:
        for n in range(3000):
            hand_over(one, partial(done.append, (by, n)))

    threads = [Thread(target=send, args=(by,)) for by in range(3)]
    ends = Event()

    def loop() -> None:
        while not (ends.is_set() and handed.empty()):
            if not handed.empty():
                handed.get_nowait()()

    looping = Thread(target=loop)
    for thread in [*threads, looping]:
        thread.start()
    for thread in threads:
        thread.join()
    ends.set()
    looping.join()
    for by in range(3):
        assert [n for who, n in done if who == by] == list(range(3000))


def test_the_loop_is_told_once_that_messages_are_there(handed: Queue[Callable[[], None]]) -> None:
    assert handed.empty()
    there = Event()
    server: Any = SimpleNamespace(
        told=[], _get_async_objs=lambda: SimpleNamespace(need_send_data=there)
    )
    Runtime._enqueued_some_message(server)
    assert server.told == [1]
    there.set()
    Runtime._enqueued_some_message(server)
    assert server.told == [1]


def test_the_settings_of_a_section_are_those_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    by_streamlit = config.get_options_for_section
    monkeypatch.setattr(config, "get_options_for_section", by_streamlit)  # put back at the end
    assert compat.find_settings_by_section()
    every = config.get_config_options()
    for section in (*{setting.section for setting in every.values()}, "none"):
        assert config.get_options_for_section(section) == by_streamlit(section)
    changed = deepcopy(every)
    monkeypatch.setattr(config, "_config_options", changed)
    changed["theme.base"].set_value("dark", "here")
    assert config.get_options_for_section("theme")["base"] == "dark"
    del changed["theme.base"]
    monkeypatch.setattr(config, "_config_options", dict(changed))  # as files that are read again
    assert config.get_options_for_section("theme") == by_streamlit("theme")


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


def test_a_page_is_told_where_its_server_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the one HTML file, whatever the page's address; other files stay as they are."""
    made = starlette_static_routes.create_streamlit_static_handler
    monkeypatch.setattr(starlette_static_routes, "create_streamlit_static_handler", made)
    assert compat.find_server_at_once()
    (tmp_path / "index.html").write_text("<head><script>1</script></head>")
    (tmp_path / "a.js").write_text("1")
    handler = starlette_static_routes.create_streamlit_static_handler(str(tmp_path), None)
    client = TestClient(handler)
    for address in ("/", "/find", "/find?text=a"):
        assert "BACKEND_BASE_URL" in client.get(address).text
    assert client.get("/a.js").text == "1"


class Page:
    """A page that is drawn until it is let go."""

    def __init__(self, name: str, turns: Turns, begun: Queue[str]) -> None:
        self._may_end = Event()
        self._thread = Thread(target=self._draw, args=(name, turns, begun), daemon=True)
        self._thread.start()

    def _draw(self, name: str, turns: Turns, begun: Queue[str]) -> None:
        mine = turns.take()
        begun.put(name)
        self._may_end.wait(60)
        turns.give_back(mine)

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(60)


def waiting(turns: Turns, count: int) -> bool:
    """Whether so many wait, within a second."""
    return any(len(turns._waiting) == count or Event().wait(0.01) for _ in range(100))


def test_so_many_pages_are_drawn_at_a_time_and_the_others_in_their_order() -> None:
    turns, begun = Turns(at_once=2, longest=60), Queue[str]()
    drawn = {}
    for n, name in enumerate("abcde"):
        drawn[name] = Page(name, turns, begun)
        if n < 2:
            assert begun.get(timeout=60) == name
        else:
            assert waiting(turns, n - 1)
    assert begun.empty()
    for done, follows in ("bc", "ad", "ce"):
        drawn[done].end()
        assert begun.get(timeout=60) == follows
        assert begun.empty()
    for name in "de":
        drawn[name].end()
    assert not turns._began
    assert turns._free == 2


def test_a_page_that_takes_long_keeps_nobody_waiting_and_frees_one_place_only() -> None:
    now, begun = [0.0], Queue[str]()
    turns = Turns(longest=0.05, now=lambda: now[0])
    long = Page("long", turns, begun)
    assert begun.get(timeout=60) == "long"
    second = Page("second", turns, begun)
    assert waiting(turns, 1)
    now[0] = 0.04
    with pytest.raises(Empty):
        begun.get(timeout=0.2)
    now[0] = 0.06
    assert begun.get(timeout=60) == "second"
    third = Page("third", turns, begun)
    assert waiting(turns, 1)
    long.end()  # it gave its place away before
    assert begun.empty()
    second.end()
    assert begun.get(timeout=60) == "third"
    third.end()
    assert turns._free == 1


def test_a_page_waits_for_its_turn_and_is_counted_among_those_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sparing.begin()
    open_page("glossary")  # so that what follows takes a moment only
    monkeypatch.setattr(sparing, "_TURNS", turns := Turns(longest=60))
    before, opened, held = gauges._waiting, Event(), turns.take()

    def open_one() -> None:
        open_page("glossary")
        opened.set()

    Thread(target=open_one, daemon=True).start()
    assert not opened.wait(1)
    assert gauges._waiting == before + 1
    turns.give_back(held)
    assert opened.wait(60)
    assert gauges._waiting == before
    assert turns._free == 1


def test_a_page_that_fails_gives_its_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_runner: object, _asked: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(sparing, "_TURNS", turns := Turns())
    monkeypatch.setattr(ScriptRunner, "_run_script", fail)
    assert compat.draw_in(sparing._turn)
    run: Any = ScriptRunner._run_script
    with pytest.raises(ZeroDivisionError):
        run(None, None)
    assert turns._free == 1
