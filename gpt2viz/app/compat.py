"""What is used of Streamlit beyond what its documentation promises; a test each.

Read in Streamlit 1.67, to whose minor version the app is pinned. Where a name is gone, each does
nothing, and its test says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from streamlit import runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx


def connected() -> int:
    """Browsers that are connected now, this one included; 0 without a server.

    Nothing public counts sessions.
    """
    if not runtime.exists():
        return 0
    manager = getattr(runtime.get_instance(), "_session_mgr", None)
    return 0 if manager is None else manager.num_active_sessions()


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


def _nothing(_session: AppSession) -> None:
    """What is asked by a message of one visitor and would be done to all isn't done."""


def theme(name: str, paths: Iterable[str]) -> dict[str, str]:
    """What a browser must have in its storage for the pages at ``paths`` to open "Light" or "Dark".

    Only Streamlit's own menu, which the app doesn't show, can change the theme.
    """
    return {f"stActiveTheme-{path}-v2": json.dumps(name) for path in paths}
