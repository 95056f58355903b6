"""What is used of Streamlit beyond what its documentation promises; a test each.

Read in Streamlit 1.67, to whose minor version the app is pinned. Where a name is gone, each does
nothing, and its test says so.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy, deepcopy
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import streamlit as st
from starlette.responses import HTMLResponse
from streamlit import config, cursor, runtime
from streamlit.navigation import page
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.caching.cache_utils import Cache
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import ScriptRunner, get_script_run_ctx
from streamlit.runtime.stats import CounterStat, GaugeStat, Stat
from streamlit.web.server.starlette import starlette_static_routes

_ASKED, _OPENED = "_asked_before", "_opened_page"
_HANDED, _COMING = "_handed_over", "_comes_for_it"
_DRAWS, _SINCE = "_draws_first_page", "_draws_since"
#: Seconds that the first page may take before a server lets visitors in.
_FIRST_PAGE = 30.0
#: Seconds after which the server's loop looks again for what a page sends.
_MOMENT = 0.01
#: Where a page is served, whatever stands before that: pages have addresses of one part.
_SERVER = (
    '<script>window.__streamlit = { BACKEND_BASE_URL: new URL(".", location.href).href }</script>'
)


def connected() -> int:
    """Browsers that are connected now, this one included; 0 without a server.

    Nothing public counts sessions.
    """
    if not runtime.exists():
        return 0
    manager = getattr(runtime.get_instance(), "_session_mgr", None)
    return 0 if manager is None else manager.num_active_sessions()


def came_back() -> bool:
    """Whether this visitor's browser was connected before, in a session that may be gone.

    A browser that lost its server names its last session as it connects again. Nothing public says
    whether it was found.
    """
    named = str(st.context.headers.get("Sec-WebSocket-Protocol") or "").split(",")
    return len(named) > 2 and bool(named[2].strip())


def forget_widgets() -> None:
    """Let go of the callbacks of widgets that this visitor's page no longer has.

    Streamlit drops the value of such a widget and keeps all the rest of it for as long as the
    visitor stays, with whatever its callbacks hold on to: of every page that was ever opened. For
    the frame, before it draws a page.
    """
    context = get_script_run_ctx()
    state = getattr(context and context.session_state, "_state", None)
    widgets = getattr(getattr(state, "_new_widget_state", None), "widget_metadata", None)
    if state is not None and widgets is not None:
        for name in [name for name in widgets if name not in state]:
            del widgets[name]


def after_upload(then: Callable[[MemoryUploadedFileManager, str], None]) -> bool:
    """Have ``then(manager, session)`` called whenever a visitor has sent a file; whether it is.

    No setting bounds what a visitor may send to ``/_stcore/upload_file``.
    """
    add = getattr(MemoryUploadedFileManager, "add_file", None)
    if add is None:
        return False

    def add_and_then(manager: Any, session_id: str, file: Any) -> None:
        add(manager, session_id, file)
        then(manager, session_id)

    MemoryUploadedFileManager.add_file = add_and_then  # type: ignore[method-assign, assignment]
    return True


def uploaded_bytes(manager: MemoryUploadedFileManager) -> int:
    """Bytes of all visitors' files together; nothing public says so."""
    return manager._total_bytes


def keep_caches() -> bool:
    """Let no visitor's message empty the caches of all; whether that could be done.

    No setting forbids that message.
    """
    if not hasattr(AppSession, "_handle_clear_cache_request"):
        return False
    AppSession._handle_clear_cache_request = _nothing  # type: ignore[method-assign, assignment]
    return True


def forget_locks_of_caches() -> bool:
    """Have Streamlit's caches hold no lock longer than somebody needs it; whether they do.

    Each has a lock for every value that was ever made, so that it is made once, and keeps it when
    the value is let go: five with each page of another sentence.
    """
    if not hasattr(Cache, "compute_value_lock"):
        return False
    turn, locks = Lock(), WeakKeyDictionary[Any, WeakValueDictionary[str, Any]]()

    def lock_of(cache: Any, key: str) -> Any:
        with turn:
            return locks.setdefault(cache, WeakValueDictionary()).setdefault(key, Lock())

    Cache.compute_value_lock = lock_of  # type: ignore[method-assign, assignment]
    return True


def whole_page_first() -> bool:
    """Have a session begin with its whole page, whatever part was asked for; whether it does.

    A browser that lost its server goes on where it was: the next thing that it asks of its new
    session may be one fragment, which Streamlit doesn't know there, and then nothing would come.
    """
    ask = getattr(AppSession, "request_rerun", None)
    if ask is None or not hasattr(AppSession, "has_fragment"):
        return False

    def ask_for_all(session: Any, state: Any) -> None:
        if not hasattr(session, _ASKED):
            setattr(session, _ASKED, True)
            if state and state.fragment_id and not session.has_fragment(state.fragment_id):
                state.fragment_id, state.is_auto_rerun = "", False
        ask(session, state)

    AppSession.request_rerun = ask_for_all  # type: ignore[method-assign, assignment]
    return True


def forget_parts_of_pages_left() -> bool:
    """Draw no part of a page that a visitor has left; whether that could be done.

    A click on a link that closes a popover asks for the next page, then for the popover's part of
    this one. Streamlit would draw that part into the next page, and tell the browser that this one
    is open: it breaks.
    """
    ask = getattr(AppSession, "request_rerun", None)
    begin = getattr(AppSession, "_create_new_session_message", None)
    if ask is None or begin is None:
        return False

    def ask_of_page(session: Any, state: Any) -> None:
        if state and state.page_script_hash:
            opened = vars(session).get(_OPENED, state.page_script_hash)
            if state.fragment_id and state.page_script_hash != opened:
                return
            setattr(session, _OPENED, state.page_script_hash)
        ask(session, state)

    def begin_page(session: Any, page_script_hash: str, *more: Any) -> Any:
        if page_script_hash != session._pages_manager.main_script_hash:  # else it isn't known yet
            setattr(session, _OPENED, page_script_hash)  # a page may lead to another by itself
        return begin(session, page_script_hash, *more)

    AppSession.request_rerun = ask_of_page  # type: ignore[method-assign, assignment]
    AppSession._create_new_session_message = begin_page  # type: ignore[method-assign, assignment]
    return True


def copy_places_at_once() -> bool:
    """Copy what says where in a page something stands in one step; whether that could be done.

    Streamlit copies it for every fragment, part by part, numbers too: a tenth of a page's time.
    """
    if not hasattr(cursor, "SparseList"):
        return False

    def copied(place: Any, memo: dict[int, Any]) -> Any:
        made = object.__new__(type(place))
        vars(made).update(vars(place))
        made._transient_elements = cursor.SparseList()
        for n, element in place._transient_elements.items():
            made._transient_elements[n] = deepcopy(element, memo)
        return made

    cursor.Cursor.__deepcopy__ = copied  # type: ignore[attr-defined]
    return True


def know_pages() -> bool:
    """Look up each page's script once, in place of with every page; whether that could be done.

    Beside a ``pages/`` folder Streamlit looks up all of them each time.
    """
    create = getattr(page, "_create_page", None)
    if create is None:
        return False

    @lru_cache(maxsize=256)
    def known(script: Path, default: bool) -> Any:
        return create(script, default=default)

    def created(script: str | Path, *, default: bool = False) -> Any:
        return copy(known(Path(script), default))  # a page of its own: it is run once

    page._create_page = created  # type: ignore[assignment]
    return True


def hand_over_together() -> bool:
    """Have what a page sends come to the server's loop in bunches; whether it does.

    Streamlit wakes the loop for each of a page's hundred messages, and again to say that one is
    there: a fifth of what Python's lock is held for. Here it is woken for the first, and looks for
    others by itself until none came for ``_MOMENT``. The order stays.
    """
    hand = getattr(AppSession, "_call_soon_on_event_loop", None)
    told = getattr(Runtime, "_enqueued_some_message", None)
    if hand is None or told is None:
        return False

    def hand_over(session: Any, done: Callable[[], None]) -> None:
        waiting: deque[Callable[[], None]] = vars(session).setdefault(_HANDED, deque())
        waiting.append(done)
        if not vars(session).get(_COMING):
            setattr(session, _COMING, True)
            hand(session, partial(_take, session, waiting, hand))

    def tell(server: Any) -> None:
        if not server._get_async_objs().need_send_data.is_set():
            told(server)

    AppSession._call_soon_on_event_loop = hand_over  # type: ignore[method-assign, assignment]
    Runtime._enqueued_some_message = tell  # type: ignore[method-assign, assignment]
    return True


def _take(session: Any, waiting: deque[Callable[[], None]], hand: Callable[..., None]) -> None:
    """Do what waits, and look again in a moment; what is handed over once none came asks again.

    One that fails is told of by the loop, and the others come after it.
    """
    if not waiting:
        setattr(session, _COMING, False)
        if not waiting:  # else it came just before, and didn't ask
            return
        setattr(session, _COMING, True)
    again = partial(_take, session, waiting, hand)
    try:
        while waiting:
            waiting.popleft()()
    except BaseException:
        hand(session, again)
        raise
    session._event_loop.call_later(_MOMENT, again)


def find_settings_by_section() -> bool:
    """Know which settings belong to which section; whether that could be done.

    Streamlit goes through more than three hundred for each of the theme's six sections, with
    every page.
    """
    if getattr(config, "get_options_for_section", None) is None:
        return False

    known: tuple[Any, dict[str, list[Any]]] = (None, {})

    def settings_of(section: str) -> dict[str, Any]:
        nonlocal known
        every, (of, found) = config.get_config_options(), known
        if every is not of:  # the files were read again
            found = {}
            for setting in every.values():
                found.setdefault(setting.section, []).append(setting)
            known = every, found  # at once: another thread may ask meanwhile
        return {setting.name: setting.value for setting in found.get(section, ())}

    config.get_options_for_section = settings_of
    return True


def find_server_at_once() -> bool:
    """Tell a page where its server is; whether that could be done.

    On a page that is opened by its own address Streamlit looks below that path first, which ends in
    two errors on the browser's console each time. Only a script in its one HTML file can tell it.
    """
    make = getattr(starlette_static_routes, "create_streamlit_static_handler", None)
    if make is None:
        return False

    def made(directory: str, base_url: str | None) -> Any:
        handler, index = make(directory, base_url), Path(directory) / "index.html"
        answer = handler.get_response
        told = index.read_text(encoding="utf-8").replace("<script", f"{_SERVER}<script", 1)

        async def get_response(path: str, scope: Any) -> Any:
            found = await answer(path, scope)
            if scope["method"] != "GET" or Path(getattr(found, "path", "")) != index:
                return found
            return HTMLResponse(told, headers={"Cache-Control": "no-cache"})

        handler.get_response = get_response
        return handler

    starlette_static_routes.create_streamlit_static_handler = made
    return True


def draw_in(turn: Callable[[], AbstractContextManager[None]]) -> bool:
    """Have each page, and each part that runs alone, drawn within ``turn()``; whether it is.

    No setting says how many are drawn at a time.
    """
    run = getattr(ScriptRunner, "_run_script", None)
    if run is None:
        return False

    def run_in_turn(runner: Any, asked: Any) -> None:
        with turn():
            run(runner, asked)

    ScriptRunner._run_script = run_in_turn  # type: ignore[method-assign, assignment]
    return True


def ready_with_first_page() -> bool:
    """Have a server say that it is ready once its first page was drawn; whether it does.

    Streamlit says so when it listens, and then the first visitors wait for all that a page imports.
    Who asks first has the page drawn, for nobody; one that takes ``_FIRST_PAGE`` seconds, or fails,
    is no reason to keep visitors out: they see why.
    """
    listens = vars(Runtime).get("is_ready_for_browser_connection")
    if listens is None or not hasattr(Runtime, "does_script_run_without_error"):
        return False

    async def is_ready(server: Any) -> tuple[bool, str]:
        listening: tuple[bool, str] = await listens.fget(server)
        if not listening[0]:
            return listening
        if not hasattr(server, _DRAWS):
            setattr(server, _DRAWS, asyncio.ensure_future(server.does_script_run_without_error()))
            setattr(server, _SINCE, time.monotonic())
        late = time.monotonic() - getattr(server, _SINCE) > _FIRST_PAGE
        return listening if late or getattr(server, _DRAWS).done() else (False, "not yet")

    Runtime.is_ready_for_browser_connection = property(is_ready)  # type: ignore[assignment, method-assign]
    return True


def _nothing(_session: AppSession) -> None:
    """What is asked by a message of one visitor and would be done to all isn't done."""


def theme(name: str, paths: Iterable[str]) -> dict[str, str]:
    """What a browser must have in its storage for the pages at ``paths`` to open "Light" or "Dark".

    Only Streamlit's own menu, which the app doesn't show, can change the theme.
    """
    return {f"stActiveTheme-{path}-v2": json.dumps(name) for path in paths}


class Gauge(NamedTuple):
    """A number of this process; ``kind`` is "gauge", or "counter" for one that only grows."""

    name: str
    kind: str
    says: str
    value: int


class _Provider:
    """Gauges as Streamlit's own numbers are had."""

    def __init__(self, read: Callable[[], Iterable[Gauge]]) -> None:
        self.read = read
        self.stats_families = [gauge.name for gauge in read()]

    def get_stats(self, family_names: Sequence[str] | None = None) -> Mapping[str, Sequence[Stat]]:
        """The gauges of these names, or all."""
        return {
            one.name: [
                (CounterStat if one.kind == "counter" else GaugeStat)(
                    one.name, one.value, help=one.says
                )
            ]
            for one in self.read()
            if family_names is None or one.name in family_names
        }


def show_gauges(read: Callable[[], Iterable[Gauge]]) -> bool:
    """Have ``/_stcore/metrics`` show what ``read`` gives, when it is asked; whether it does.

    Nothing public adds to what is shown there. A server that is just being made has no place for
    them yet.
    """
    manager = getattr(runtime.get_instance(), "stats_mgr", None)
    if manager is None:
        return False
    manager.register_provider(_Provider(read))
    return True
