"""Limits on requests, files and connections, beyond those of Streamlit."""

from __future__ import annotations

import ast
import asyncio
import gc
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient, WebSocketDenialResponse, WebSocketTestSession
from starlette.types import Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.NewSession_pb2 import NewSession
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from uvicorn import Config

from gpt2viz.app import garbage, metrics, run_cache, server, server_config
from tests.app.pages import open_page

ROOT = Path(__file__).parents[2]


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> MemoryUploadedFileManager:
    """The uploaded files of a separate server."""
    manager = MemoryUploadedFileManager("/upload")
    instance = SimpleNamespace(uploaded_file_mgr=manager)
    monkeypatch.setattr("streamlit.runtime.get_instance", lambda: instance)
    return manager


def files(manager: MemoryUploadedFileManager, session: str) -> list[str]:
    return list(manager.file_storage.get(session, ()))


def send(manager: MemoryUploadedFileManager, session: str, name: str, nbytes: int) -> None:
    """Send a file as a browser does, through the limits."""

    async def endpoint(_request: Request) -> PlainTextResponse:
        manager.add_file(session, UploadedFileRec(name, name, "text/plain", bytes(nbytes)))
        return PlainTextResponse("", 204)

    app = Starlette(routes=[Route("/{rest:path}", endpoint, methods=["PUT"])])
    limited = server.Limits(app, wait_for_page=False)
    assert TestClient(limited).put(f"/_stcore/upload_file/{session}/{name}").status_code == 204


def test_newest_files_of_a_visitor_are_kept(manager: MemoryUploadedFileManager) -> None:
    for n in range(20):
        send(manager, "one", str(n), 10)
    send(manager, "other", "mine", 10)
    assert files(manager, "one") == ["16", "17", "18", "19"]
    assert files(manager, "other") == ["mine"]
    (file,) = manager.get_files("one", ["19"])
    assert len(file.data) == 10


def test_bytes_of_all_visitors_are_bounded(
    monkeypatch: pytest.MonkeyPatch, manager: MemoryUploadedFileManager
) -> None:
    monkeypatch.setattr(server, "BYTES", 1000)
    for n in range(9):
        send(manager, f"visitor {n}", "file", 300)
    stored = [session for session in manager.file_storage if files(manager, session)]
    assert stored == ["visitor 6", "visitor 7", "visitor 8"]
    send(manager, "large", "file", 5000)
    assert not files(manager, "large")


def rerun(page: str = "", fragment: str = "", auto: bool = False) -> BackMsg:
    state = ClientState(page_script_hash=page, fragment_id=fragment, is_auto_rerun=auto)
    return BackMsg(rerun_script=state)


def admit(visit: server.Visit, message: BackMsg) -> BackMsg | None:
    """A browser's message as it reaches Streamlit; None if it is dropped."""
    data = visit.admit(message.SerializeToString())
    return None if data is None else BackMsg.FromString(data)


def begin(visit: server.Visit, page: str) -> None:
    """Send the browser Streamlit's message that a page begins."""
    begun = NewSession(page_script_hash=page, main_script_hash="app.py")
    visit.note(ForwardMsg(new_session=begun).SerializeToString())


def test_visitors_can_not_clear_the_cache() -> None:
    visit = server.Visit()
    assert admit(visit, BackMsg(clear_cache=True)) is None
    stop = BackMsg(stop_script=True)
    assert admit(visit, stop) == stop
    assert visit.admit(b"\xff no message") == b"\xff no message"  # Streamlit refuses it


def test_connection_starts_with_the_whole_page() -> None:
    """Even if a browser whose server ended requests a part of its old page."""
    visit, requested = server.Visit(), rerun("head", "gone", auto=True)
    assert admit(visit, requested) == rerun("head")
    assert admit(visit, requested) == requested


def test_part_of_a_left_page_is_not_drawn_into_the_next() -> None:
    visit = server.Visit()
    assert admit(visit, rerun())  # only the address names the page
    begin(visit, "app.py")  # not known yet
    for expected in (rerun("head", "save"), rerun("head"), rerun("head", "save"), rerun("shapes")):
        assert admit(visit, expected) == expected
    assert admit(visit, rerun("head", "save")) is None
    begin(visit, "shapes")
    assert admit(visit, rerun("shapes", "save"))
    assert admit(visit, rerun("head", "save")) is None
    begin(visit, "head")  # a page that redirects to another
    assert admit(visit, rerun("shapes", "save")) is None
    assert admit(visit, rerun("head", "save"))


def test_connections_are_counted_and_filtered() -> None:
    read: list[bytes] = []
    counts: list[int] = []

    async def streamlit(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        counts.append(metrics.get_count("visitors"))
        while (message := await receive())["type"] == "websocket.receive":
            read.append(message["bytes"])
        await send({"type": "websocket.close"})

    expected = rerun("head").SerializeToString()
    with TestClient(server.Limits(streamlit, False)).websocket_connect("/_stcore/stream") as socket:
        socket.send_bytes(BackMsg(clear_cache=True).SerializeToString())
        socket.send_bytes(expected)
    assert (counts, read, metrics.get_count("visitors")) == ([1], [expected], 0)


def test_page_names_its_server() -> None:
    """In the one HTML file, at each page's address; everything else is Streamlit's."""
    client = TestClient(Starlette(routes=server._page_routes()))
    for address in ("/", "/find", "/head?text=a"):
        assert "BACKEND_BASE_URL" in client.get(address).text
    assert client.get("/static/a.js").status_code == 404


def test_server_started_by_streamlit_is_not_open_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_limited", False)
    monkeypatch.setattr(server_config, "is_local", lambda: False)
    at = open_page("glossary")
    (error,) = at.error
    assert "start it with `gpt2viz app`" in error.value


def n_locks() -> int:
    gc.collect()
    return sum(type(thing) is type(threading.Lock()) for thing in gc.get_objects())


def test_clearing_caches_frees_streamlits_locks() -> None:
    @st.cache_data(max_entries=4, show_spinner=False)
    def doubled(n: int) -> int:
        return 2 * n

    before, models = n_locks(), run_cache.models()
    assert [doubled(n) for n in range(500)] == [2 * n for n in range(500)]
    assert n_locks() > before + 400
    garbage.clear_caches()
    assert n_locks() < before + 50
    assert run_cache.models() is models


def test_every_cache_is_bounded() -> None:
    """Caches keyed by arguments are bounded in size or time, or visitors could fill them."""
    unbounded = []
    for file in sorted((ROOT / "gpt2viz").rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                arguments = [a.arg for a in function.args.args if a.arg not in ("self", "cls")]
                unbounded += [
                    f"{file.relative_to(ROOT)}: {function.name}"
                    for decorator in map(ast.unparse, function.decorator_list)
                    if arguments
                    and re.match(r"(functools\.|st\.)?(lru_)?cache(_data|_resource)?\b", decorator)
                    if not re.search(r"(max_entries|maxsize|ttl)=(?!None)", decorator)
                ]
    assert unbounded == []


def test_server_runs_on_uvloop() -> None:
    """Python's own loop delays small answers, as Streamlit's socket doesn't name its protocol."""
    assert Config("the app").get_loop_factory().__module__ == "uvloop"


def test_server_is_ready_after_its_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing, drawn = asyncio.Event(), list[str]()

    async def streamlit(scope: Scope, receive: Receive, send: Send) -> None:
        drawn.append(scope["path"])
        if scope["path"] == "/_stcore/script-health-check":
            await drawing.wait()
            raise ZeroDivisionError  # visitors see why
        await PlainTextResponse("ok")(scope, receive, send)

    async def ask() -> None:
        async def health(limits: server.Limits, path: str = "/_stcore/health") -> int:
            sent: list[Message] = []

            async def send(message: Message) -> None:
                sent.append(message)

            scope = {"type": "http", "method": "GET", "path": path, "headers": []}
            await limits(scope, lambda: asyncio.sleep(0, {}), send)
            await asyncio.sleep(0.01)
            return int(sent[0]["status"])

        limits, slow = (server.Limits(streamlit, wait_for_page=True) for _ in range(2))
        assert [await health(limits), await health(limits)] == [503, 503]
        drawing.set()
        await asyncio.sleep(0.01)
        assert await health(limits) == 200
        assert drawn == ["/_stcore/script-health-check", "/_stcore/health"]
        assert await health(limits, "/_stcore/script-health-check") == 404  # to nobody else
        assert await health(server.Limits(streamlit, wait_for_page=False)) == 200
        drawing.clear()
        assert await health(slow) == 503
        monkeypatch.setattr(server, "FIRST_PAGE", 0)
        assert await health(slow) == 200
        drawing.set()

    with ThreadPoolExecutor(1) as own:  # another test's browser may have a loop on this thread
        own.submit(asyncio.run, ask()).result()


def status(limits: server.Limits, client: str, path: str = "/page") -> int:
    """The status of the response to a client's request."""
    return TestClient(limits, client=(client, 1)).get(path).status_code


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> server.Limits:
    """Two requests per second, four in a burst; two connections at a time."""
    monkeypatch.setenv(server.REQUESTS_VARIABLE, "2")
    monkeypatch.setenv(server.CONNECTIONS_VARIABLE, "2")
    monkeypatch.setattr(server, "BURST", 2)

    async def streamlit(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            return await PlainTextResponse("ok")(scope, receive, send)
        await receive()
        await send({"type": "websocket.accept"})
        await receive()

    return server.Limits(streamlit, wait_for_page=False)


def test_requests_of_a_client_are_limited(
    limits: server.Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: now))
    assert [status(limits, "192.0.2.1") for _ in range(6)] == [200] * 4 + [429] * 2
    assert status(limits, "192.0.2.1", "/_stcore/health") == 200  # requested by our own proxy
    refused = TestClient(limits, client=("192.0.2.1", 1)).get("/page")
    assert (refused.headers["Retry-After"], "try again in 10 seconds" in refused.text) == ("10", 1)
    assert status(limits, "192.0.2.2") == 200
    now += 1  # refused requests don't count
    assert [status(limits, "192.0.2.1") for _ in range(3)] == [200, 200, 429]
    monkeypatch.setattr(server, "CLIENTS", 3)
    for n in (4, 5, 6, 7, 5, 8):  # the least recent client is forgotten
        status(limits, f"192.0.2.{n}")
    assert list(limits._clients._done) == [f"192.0.2.{n}" for n in (7, 5, 8)]


def test_connections_of_a_client_are_limited(limits: server.Limits) -> None:
    def connect(client: str) -> WebSocketTestSession:
        return TestClient(limits, client=(client, 1)).websocket_connect("/_stcore/stream")

    with connect("192.0.2.1"), connect("192.0.2.1"):
        with pytest.raises(WebSocketDenialResponse) as refused, connect("192.0.2.1"):
            pass
        assert refused.value.status_code == 429
        with connect("192.0.2.2"):
            pass
    with connect("192.0.2.1"):
        assert limits._clients._connections == {"192.0.2.1": 1}


def test_ipv6_network_is_one_client(limits: server.Limits) -> None:
    of_one = ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::", "2001:db8::1", "2001:db8::9"]
    assert [status(limits, client) for client in of_one] == [200] * 4 + [429]
    apart = ["2001:db8:0:1::1", "::ffff:192.0.2.1", "::ffff:192.0.2.2", "no:address", ""]
    assert len({server.client_of({"client": (client, 1)}) for client in apart}) == 5


def test_class_behind_one_address_can_open_its_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty browsers with empty caches, each with two open pages."""
    clients = server.Clients()
    assert all(clients.admit("192.0.2.1") for _ in range(60 * 120 + 2 * 60))
    with ExitStack() as opened:
        assert all(opened.enter_context(clients.connect("192.0.2.1")) for _ in range(2 * 60))
    monkeypatch.setenv(server.REQUESTS_VARIABLE, "many")  # each page reports that
    assert server.Clients()._rate == server.DEFAULT_REQUESTS
