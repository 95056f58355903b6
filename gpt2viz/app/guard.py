"""What Streamlit's own server takes from whoever reaches it, bounded.

A visitor may send files to ``/_stcore/upload_file`` whether or not a page asks for one, and may
have every cache emptied, with all visitors' models and runs. Streamlit has a setting for neither.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

#: Files that are kept of one visitor: one for each place that asks for one, and one on its way.
FILES = 4
#: Bytes of files that are kept of all visitors together.
BYTES = 64 * 10**6


@lru_cache(maxsize=1)
def stand() -> bool:
    """Put the bounds in place, for as long as the process lasts; whether Streamlit let us.

    Call it before the server starts, or with the first page. Streamlit tells these names to nobody;
    its version is pinned to a minor, and a test on a running server says where they have changed.
    """
    add = getattr(MemoryUploadedFileManager, "add_file", None)
    if add is None or not hasattr(AppSession, "_handle_clear_cache_request"):
        return False

    def add_bounded(manager: Any, session_id: str, file: Any) -> None:
        add(manager, session_id, file)
        _bound(manager, session_id)

    MemoryUploadedFileManager.add_file = add_bounded  # type: ignore[method-assign, assignment]
    AppSession._handle_clear_cache_request = _keep_caches  # type: ignore[method-assign, assignment]
    return True


def _bound(manager: MemoryUploadedFileManager, session_id: str) -> None:
    """Let go of the visitor's oldest files, then of other visitors' oldest."""
    while len(own := list(manager.file_storage.get(session_id, ()))) > FILES:
        manager.remove_file(session_id, own[0])
    while manager._total_bytes > BYTES:
        oldest = next((s, f) for s, files in list(manager.file_storage.items()) for f in files)
        manager.remove_file(*oldest)


def _keep_caches(_session: AppSession) -> None:
    """What is asked by a message of one visitor and would be done to all isn't done."""
