"""What Streamlit's own server takes from whoever reaches it, bounded.

A visitor may send files to ``/_stcore/upload_file`` whether or not a page asks for one, and may
have every cache emptied, with all visitors' models and runs. Streamlit has a setting for neither,
nor for the locks that its caches keep of every address that was ever asked for.
Nor has it one for a browser that lost its server in the middle of a page, or that asks for a part
of a page that it leaves.
"""

from __future__ import annotations

from functools import lru_cache

from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

from gpt2viz.app import compat

#: Files that are kept of one visitor: one for each place that asks for one, and one on its way.
FILES = 4
#: Bytes of files that are kept of all visitors together.
BYTES = 64 * 10**6


@lru_cache(maxsize=1)
def stand() -> bool:
    """Put the bounds in place, for as long as the process lasts; whether Streamlit let us.

    Call it before the server starts, or with the first page.
    """
    bounds = compat.after_upload(_bound), compat.keep_caches(), compat.forget_locks_of_caches()
    return all((*bounds, compat.whole_page_first(), compat.forget_parts_of_pages_left()))


def _bound(manager: MemoryUploadedFileManager, session_id: str) -> None:
    """Let go of the visitor's oldest files, then of other visitors' oldest."""
    while len(own := list(manager.file_storage.get(session_id, ()))) > FILES:
        manager.remove_file(session_id, own[0])
    while compat.uploaded_bytes(manager) > BYTES:
        oldest = next((s, f) for s, files in list(manager.file_storage.items()) for f in files)
        manager.remove_file(*oldest)
