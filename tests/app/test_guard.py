"""What the server takes from anybody is bounded, whatever Streamlit would take."""

from __future__ import annotations

import ast
import asyncio
import gc
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from gpt2viz.app import compat, guard, run_cache

ROOT = Path(__file__).parents[2]


def files(manager: MemoryUploadedFileManager, session: str) -> list[str]:
    return list(manager.file_storage.get(session, ()))


def send(manager: MemoryUploadedFileManager, session: str, name: str, nbytes: int) -> None:
    manager.add_file(session, UploadedFileRec(name, name, "text/plain", bytes(nbytes)))


def test_of_one_visitor_the_newest_files_are_kept() -> None:
    assert guard.stand()
    manager = MemoryUploadedFileManager("/upload")
    for n in range(600):
        send(manager, "one", str(n), 10)
    send(manager, "other", "mine", 10)
    assert files(manager, "one") == ["596", "597", "598", "599"]
    assert files(manager, "other") == ["mine"]
    (kept,) = manager.get_files("one", ["599"])
    assert len(kept.data) == 10


def test_of_all_visitors_a_bounded_number_of_bytes_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert guard.stand()
    monkeypatch.setattr(guard, "BYTES", 1000)
    manager = MemoryUploadedFileManager("/upload")
    for n in range(50):
        send(manager, f"visitor {n}", "file", 300)
    held = [session for session in manager.file_storage if files(manager, session)]
    assert held == ["visitor 47", "visitor 48", "visitor 49"]
    send(manager, "large", "file", 5000)
    assert not files(manager, "large")


class Session(AppSession):
    """What handles a visitor's messages, and nothing else."""

    def __init__(self) -> None: ...

    def __del__(self) -> None: ...


def test_no_visitor_empties_what_is_kept_for_all() -> None:
    assert guard.stand()
    models = run_cache.models()
    Session().handle_backmsg(BackMsg(clear_cache=True))
    assert run_cache.models() is models
    st.cache_resource.clear()
    assert run_cache.models() is not models


def locks() -> int:
    gc.collect()
    return sum(type(one) is type(threading.Lock()) for one in gc.get_objects())


def test_a_cache_keeps_no_lock_of_what_it_let_go() -> None:
    assert guard.stand()

    @st.cache_data(max_entries=4, show_spinner=False)
    def doubled(n: int) -> int:
        return 2 * n

    assert [doubled(n) for n in range(5)] == [0, 2, 4, 6, 8]
    before = locks()
    assert [doubled(n) for n in range(500)] == [2 * n for n in range(500)]
    assert locks() < before + 50


def test_every_cache_has_a_bound() -> None:
    """Of what is kept by an argument, so many or so long; else a visitor's addresses fill it."""
    unbounded = []
    for file in sorted((ROOT / "gpt2viz").rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                asked = [a.arg for a in function.args.args if a.arg not in ("self", "cls")]
                unbounded += [
                    f"{file.relative_to(ROOT)}: {function.name}"
                    for decorator in map(ast.unparse, function.decorator_list)
                    if asked
                    and re.match(r"(functools\.|st\.)?(lru_)?cache(_data|_resource)?\b", decorator)
                    if not re.search(r"(max_entries|maxsize|ttl)=(?!None)", decorator)
                ]
    assert unbounded == []


def test_a_server_is_ready_once_its_first_page_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    listening, draws = (True, "ok"), list[asyncio.Future[tuple[bool, str]]]()

    async def listens(_: Runtime) -> tuple[bool, str]:
        return listening

    async def draw(_: Runtime) -> tuple[bool, str]:
        draws.append(asyncio.get_running_loop().create_future())
        return await draws[-1]

    async def asked(server: Runtime) -> bool:
        await asyncio.sleep(0.01)
        return (await server.is_ready_for_browser_connection)[0]

    async def ask() -> None:
        nonlocal listening
        server, slow = object.__new__(Runtime), object.__new__(Runtime)
        assert [await asked(server), await asked(server)] == [False, False]
        draws[0].set_result((False, "error"))  # visitors are told why
        assert [await asked(server), len(draws)] == [True, 1]
        listening = False, "unavailable"  # it stops
        assert not await asked(server)
        listening = True, "ok"
        assert not await asked(slow)
        monkeypatch.setattr(compat, "_FIRST_PAGE", 0)
        assert await asked(slow)

    monkeypatch.setattr(Runtime, "is_ready_for_browser_connection", property(listens))
    monkeypatch.setattr(Runtime, "does_script_run_without_error", draw)
    assert compat.ready_with_first_page()
    with ThreadPoolExecutor(1) as own:  # a browser of another test may have a loop on this one
        own.submit(asyncio.run, ask()).result()


def test_a_new_session_begins_with_its_whole_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the browser, whose server ended, asks for a part of the page it had."""
    asked: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        AppSession,
        "request_rerun",
        lambda _, state: asked.append((state.fragment_id, state.is_auto_rerun)),
    )
    monkeypatch.setattr(AppSession, "has_fragment", lambda _, name: name == "there")
    assert compat.whole_page_first()
    lost, knows = Session(), Session()
    for _ in range(2):
        lost.request_rerun(ClientState(fragment_id="gone", is_auto_rerun=True))
    knows.request_rerun(ClientState(fragment_id="there"))
    assert asked == [("", False), ("gone", True), ("there", False)]


def test_no_part_of_a_page_that_was_left_is_drawn_into_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(
        AppSession,
        "request_rerun",
        lambda _, state: asked.append((state.page_script_hash, state.fragment_id)),
    )
    monkeypatch.setattr(AppSession, "_create_new_session_message", lambda _, page, *__: page)
    assert compat.forget_parts_of_pages_left()
    visitor = Session()
    vars(visitor)["_pages_manager"] = SimpleNamespace(main_script_hash="app.py")
    begin: Any = visitor._create_new_session_message

    def ask(page: str, part: str = "") -> tuple[str, str]:
        visitor.request_rerun(ClientState(page_script_hash=page, fragment_id=part))
        return page, part

    # Of whom nothing is known yet, the page that is open, and the next before it has begun.
    assert begin("app.py", object()) == "app.py"
    wanted = [ask("head", "save"), ask("head"), ask("head", "save"), ask("shapes")]
    ask("head", "save")
    assert begin("shapes", object()) == "shapes"
    wanted += [ask("shapes", "save")]
    ask("head", "save")
    # A page that leads to another by itself.
    assert begin("head", object()) == "head"
    ask("shapes", "save")
    assert asked == [*wanted, ask("head", "save"), ask("")]
