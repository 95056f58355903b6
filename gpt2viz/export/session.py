"""A session as a small file: which page, and all that is chosen; it opens again as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from gpt2viz import __version__
from gpt2viz.errors import ExportError

#: Says that a JSON file is a session, and in which form.
FORM = 1
#: Bytes of the largest session that is read.
LARGEST = 1_000_000

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class Session:
    """One view of the app.

    ``page`` is the page's name in the menu, ``parameters`` are those of its address, with text and
    model always among them. ``sha256`` is the checksum of the model's weights, or "".
    """

    page: str
    parameters: Mapping[str, str]
    sha256: str = ""
    version: str = __version__

    def to_json(self) -> str:
        """The file's content."""
        return json.dumps({"gpt2viz_session": FORM, **asdict(self)}, ensure_ascii=False, indent=1)


def read_session(content: bytes) -> Session:
    """A session from a file's content.

    Raises ``ExportError`` with one sentence for anything that is no session: too large, no JSON,
    another form, or values that no address has. Whether the page and the model are there, and
    whether a value fits, only the app can tell.
    """
    if len(content) > LARGEST:
        raise ExportError(f"This file is too large for a session (over {LARGEST:,} bytes).")
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ExportError("This file isn't a session: it isn't JSON.") from None
    if not isinstance(found, dict) or "gpt2viz_session" not in found:
        raise ExportError("This file is JSON, but not a session that gpt2viz saved.")
    if found["gpt2viz_session"] != FORM:
        raise ExportError("This session was saved by a newer gpt2viz. Update to open it.")
    texts = {key: found.get(key, "") for key in ("page", "sha256", "version")}
    parameters = found.get("parameters")
    if (
        not isinstance(parameters, dict)
        or not all(isinstance(text, str) for text in texts.values())
        or not all(_fits(name, value) for name, value in parameters.items())
    ):
        raise ExportError("This session is damaged: its values can't be read.")
    return Session(parameters=parameters, **texts)


def _fits(name: str, value: object) -> bool:
    if not isinstance(value, str) or not _NAME.fullmatch(name):
        return False
    return not any(0xD800 <= ord(char) < 0xE000 for char in value)  # halves of a character
