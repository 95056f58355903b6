"""Pages are drawn in turn, and the menu leads to each of them."""

from __future__ import annotations

from queue import Empty, Queue
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from streamlit.runtime.scriptrunner import ScriptRunner

from gpt2viz.app import compat, metrics, pages, render_queue, server
from gpt2viz.app.render_queue import RenderQueue
from tests.app.pages import open_page


def test_menu_links_to_every_page_with_all_parameters() -> None:
    assert server.install()
    visitor = open_page("head", text="a b", layer="1")
    for _ in range(2):
        links = [link.proto for link in visitor.get("page_link")][: len(pages.MENU)]
        assert [link.page for link in links] == [page.address for page in pages.MENU]
        assert len({link.page_script_hash for link in links}) == len(links)
        for link in links:
            assert parse_qs(link.query_string) == {"text": ["a b"], "layer": ["1"]}
        visitor.run()


class Page:
    """A page that is being drawn until it may end."""

    def __init__(self, name: str, turns: RenderQueue, begun: Queue[str]) -> None:
        self._may_end = Event()
        self._thread = Thread(target=self._draw, args=(name, turns, begun), daemon=True)
        self._thread.start()

    def _draw(self, name: str, turns: RenderQueue, begun: Queue[str]) -> None:
        turn = turns.take()
        begun.put(name)
        self._may_end.wait(60)
        turns.give_back(turn)

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(60)


def waiting(turns: RenderQueue, count: int) -> bool:
    """True if that many pages wait, within a second."""
    return any(len(turns._waiting) == count or Event().wait(0.01) for _ in range(100))


def test_limited_pages_are_drawn_at_once_in_order() -> None:
    turns, begun = RenderQueue(at_once=2, longest=60), Queue[str]()
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


def test_slow_page_yields_its_place_once() -> None:
    now, begun = [0.0], Queue[str]()
    turns = RenderQueue(longest=0.05, now=lambda: now[0])
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
    long.end()  # it has already given up its place
    assert begun.empty()
    second.end()
    assert begun.get(timeout=60) == "third"
    third.end()
    assert turns._free == 1


def test_page_waits_for_its_turn_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.install()
    open_page("glossary")  # so that the next time is quick
    monkeypatch.setattr(render_queue, "_QUEUE", turns := RenderQueue(longest=60))
    before, opened, turn = metrics.get_count("waiting"), Event(), turns.take()

    def open_one() -> None:
        open_page("glossary")
        opened.set()

    Thread(target=open_one, daemon=True).start()
    assert not opened.wait(1)
    assert metrics.get_count("waiting") == before + 1
    turns.give_back(turn)
    assert opened.wait(60)
    assert metrics.get_count("waiting") == before
    assert turns._free == 1


def test_failing_page_gives_its_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_runner: object, _rerun_data: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(render_queue, "_QUEUE", turns := RenderQueue())
    monkeypatch.setattr(ScriptRunner, "_run_script", fail)
    assert compat.draw_in(render_queue.turn)
    run: Any = ScriptRunner._run_script
    with pytest.raises(ZeroDivisionError):
        run(None, None)
    assert turns._free == 1
