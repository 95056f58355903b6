"""The app as a Streamlit server, ``st.App``: limits on visitors, health, metrics, page addresses.

Streamlit has no setting for these limits. Any client may upload files whether or not a page asks
for one, and may clear every cache, with all visitors' models and runs. A browser may also request
a fragment of a page that it has left, or that a new session doesn't know.

Three parts of Streamlit used here are undocumented: its messages to and from a browser
(``streamlit.proto``), its runtime's uploaded files, and the HTML file of its page.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import cast

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import runtime
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

from gpt2viz import settings
from gpt2viz.app import compat, metrics, render_queue
from gpt2viz.app.pages import ADDED, PAGES
from gpt2viz.errors import CheckpointError

#: Maximum number of files kept per visitor: one per uploader on a page, and one being uploaded.
FILES = 4
#: Maximum size of the files kept for all visitors together, in bytes.
BYTES = 64 * 10**6
#: Most open connections per client, a network address; a class of sixty may share one.
CONNECTIONS_VARIABLE = "GPT2VIZ_MAX_CONNECTIONS"
DEFAULT_CONNECTIONS = 120
#: Most requests per second of a client, on average.
REQUESTS_VARIABLE = "GPT2VIZ_MAX_REQUESTS"
DEFAULT_REQUESTS = 100
#: Seconds whose requests may come at once: a class opens its first page, 120 files, together.
BURST = 80
#: Most clients whose requests are counted.
CLIENTS = 10_000
#: Seconds that the first page may take before a server lets visitors in.
FIRST_PAGE = 30.0
#: A worker's metrics, as JSON.
METRICS = "/metrics.json"

_HEALTH, _SCRIPT_HEALTH = "/_stcore/health", "/_stcore/script-health-check"
#: A new page begins with a message that is shorter than this.
_LONGEST_START = 50_000
#: Tells Streamlit's page where its server is: beside the page, whatever the path's prefix. On a
#: deep link it would first try below that path, with two errors on the console.
_SERVER = (
    '<script>window.__streamlit = { BACKEND_BASE_URL: new URL(".", location.href).href }</script>'
)

#: Refuses WebSocket connections too: a browser then backs off.
_TOO_MUCH = PlainTextResponse(
    "Too much at once from your address: try again in 10 seconds.\n", 429, {"Retry-After": "10"}
)

_limited = False


def create(at_once: bool = False) -> st.App:
    """Create the app, ready to be served.

    ``/_stcore/health`` reports healthy once the first page has been drawn, or ``at_once``.
    """
    global _limited
    _limited = True
    install()
    routes = _page_routes()
    if settings.WORKERS_VARIABLE in os.environ:  # behind the proxy, which doesn't expose it
        routes.append(Route(METRICS, _metrics))
    limits = Middleware(Limits, wait_for_page=not at_once)
    return st.App(settings.APP / "app.py", routes=routes, middleware=[limits])


def install() -> bool:
    """Make Streamlit draw pages in turn and forget their widgets; return whether both worked."""
    return all((compat.draw_in(render_queue.turn), compat.forget_widgets()))


def is_limited() -> bool:
    """Return whether the limits apply; ``streamlit run`` starts a server without them."""
    return _limited


def _page_routes() -> list[Route]:
    """Route every page's address to Streamlit's HTML file, with the server's address in it."""
    html = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    html = html.replace("<script", f"{_SERVER}<script", 1)

    async def respond(_request: Request) -> HTMLResponse:
        return HTMLResponse(html, headers={"Cache-Control": "no-cache"})

    return [Route(f"/{page.address}", respond) for page in (*PAGES, ADDED)]


def _metrics(_request: Request) -> JSONResponse:
    return JSONResponse(metrics.snapshot())


class Limits:
    """Middleware that limits requests and uploads; unhealthy until the first page is drawn."""

    def __init__(self, app: ASGIApp, wait_for_page: bool) -> None:
        self.app = app
        self._wait_for_page = wait_for_page
        self._clients = Clients()
        self._first_page: asyncio.Future[None] | None = None
        self._since = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to Streamlit."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif scope["path"] == _HEALTH and not self._is_ready(scope):
            await PlainTextResponse("not yet", 503)(scope, receive, send)
        elif scope["path"] != _HEALTH and not self._clients.admit(client_of(scope)):
            await _TOO_MUCH(scope, receive, send)
        elif scope["type"] == "websocket":
            with self._clients.connect(client_of(scope)) as fits:
                answer = partial(Visit().serve, self.app) if fits else _TOO_MUCH
                await answer(scope, receive, send)
        elif scope["path"] == _SCRIPT_HEALTH:  # for this process only: it draws a page
            await PlainTextResponse("Not found", 404)(scope, receive, send)
        else:
            await self.app(scope, receive, send)
            if scope["method"] in ("PUT", "POST"):
                bound_uploads()

    def _is_ready(self, scope: Scope) -> bool:
        if self._wait_for_page and self._first_page is None:
            self._first_page = asyncio.ensure_future(self._draw_first_page(scope))
            self._since = time.monotonic()
        late = time.monotonic() - self._since > FIRST_PAGE
        return self._first_page is None or self._first_page.done() or late

    async def _draw_first_page(self, scope: Scope) -> None:
        """Draw it without a visitor. If it fails, visitors are let in and see why."""

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_message: Message) -> None: ...

        with suppress(Exception):
            path = {"path": _SCRIPT_HEALTH, "raw_path": _SCRIPT_HEALTH.encode()}
            request = {**scope, **path, "method": "GET", "query_string": b""}
            await self.app(request, receive, send)


class Clients:
    """Each client's open connections and request rate."""

    def __init__(self) -> None:
        self._connections = Counter[str]()
        #: When each client's requests so far would be finished, at the allowed rate.
        self._done = OrderedDict[str, float]()
        self._most = _limit(CONNECTIONS_VARIABLE, DEFAULT_CONNECTIONS)
        self._rate = _limit(REQUESTS_VARIABLE, DEFAULT_REQUESTS)

    def admit(self, client: str) -> bool:
        """Return whether one more request is allowed, and count it if so."""
        now = time.monotonic()
        done = max(now, self._done.get(client, now)) + 1 / self._rate
        if done > now + BURST:
            return False
        self._done[client] = done
        self._done.move_to_end(client)
        if len(self._done) > CLIENTS:
            self._done.popitem(last=False)
        return True

    @contextmanager
    def connect(self, client: str) -> Iterator[bool]:
        """Count a connection while it lasts; yields whether it is allowed."""
        self._connections[client] += 1
        try:
            yield self._connections[client] <= self._most
        finally:
            self._connections[client] -= 1
            self._connections += Counter()  # drops clients without any


def client_of(scope: Scope) -> str:
    """Return the client's address, which Uvicorn has from our proxy; for IPv6 its /64 network."""
    address = str((scope.get("client") or [""])[0])
    if ":" in address and "." not in address:
        with suppress(ValueError):
            return str(ip_network((ip_address(address).packed, 64), strict=False))
    return address


def _limit(variable: str, default: float) -> float:
    """Return the owner's limit, or the default if it can't be read, as each page then says."""
    with suppress(CheckpointError):
        return settings.number(variable, default, least=1)
    return default


def bound_uploads() -> None:
    """Drop each visitor's oldest files over ``FILES``, then all visitors' oldest over ``BYTES``."""
    manager = cast(MemoryUploadedFileManager, runtime.get_instance().uploaded_file_mgr)
    storage = manager.file_storage
    for session, files in list(storage.items()):
        for file in list(files)[:-FILES]:
            manager.remove_file(session, file)
    held = [(session, file) for session, files in storage.items() for file in files.values()]
    total = sum(len(file.data) for _, file in held)
    for session, oldest in held:
        if total <= BYTES:
            break
        total -= len(oldest.data)
        manager.remove_file(session, oldest.file_id)


class Visit:
    """One browser's connection: filters its messages to Streamlit and tracks its open page."""

    def __init__(self) -> None:
        self._page = ""
        self._begun = False

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay messages between browser and Streamlit, and count the visitor meanwhile."""
        accepted = False

        async def from_browser() -> Message:
            while True:
                message = await receive()
                data = message.get("bytes")
                if data is None:
                    return message
                if (admitted := self.admit(data)) is not None:
                    return {**message, "bytes": admitted}

        async def to_browser(message: Message) -> None:
            nonlocal accepted
            if message["type"] == "websocket.accept":
                accepted = True
                metrics.count("visitors")
            elif (data := message.get("bytes")) and len(data) < _LONGEST_START:
                self.note(data)
            await send(message)

        try:
            await app(scope, from_browser, to_browser)
        finally:
            if accepted:
                metrics.count("visitors", -1)

    def admit(self, data: bytes) -> bytes | None:
        """Return the message that Streamlit gets instead of ``data``; None drops it.

        Requests to clear all caches are dropped. A connection's first run is a whole page: a
        browser that lost its server may request a fragment that its new session doesn't know. And
        a click on a link that closes a popover requests the next page, then the popover's fragment
        of this one, which Streamlit would draw into the next.
        """
        message = BackMsg()
        try:
            message.ParseFromString(data)
        except Exception:  # protobuf's own, which has no types
            return data  # Streamlit refuses it
        kind = message.WhichOneof("type")
        if kind == "clear_cache":
            return None
        if kind != "rerun_script":
            return data
        rerun = message.rerun_script
        if not self._begun and rerun.fragment_id:
            rerun.fragment_id, rerun.is_auto_rerun = "", False
            data = message.SerializeToString()
        self._begun = True
        if rerun.page_script_hash:
            opened = self._page or rerun.page_script_hash
            if rerun.fragment_id and rerun.page_script_hash != opened:
                return None
            self._page = rerun.page_script_hash
        return data

    def note(self, data: bytes) -> None:
        """Note which page Streamlit begins: a page may switch to another by itself."""
        message = ForwardMsg()
        with suppress(Exception):
            message.ParseFromString(data)
            if message.WhichOneof("type") == "new_session":
                begun = message.new_session
                if begun.page_script_hash != begun.main_script_hash:  # else it isn't known yet
                    self._page = begun.page_script_hash
