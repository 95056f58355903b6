"""Logs of a server, without visitors' texts.

An exception's message may quote what somebody typed, so a log has only its kind and location.
"""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType


def location(kind: type[BaseException], at: TracebackType | None) -> str:
    """An exception as a traceback without its message: our files and lines, and its kind."""
    lines = traceback.format_tb(at)
    return f"Traceback (most recent call last):\n{''.join(lines)}{kind.__name__} (message left out)"


def leave_texts_out() -> None:
    """Have every logger of this process write exceptions as ``location`` does, from now on."""
    make = logging.getLogRecordFactory()

    def record(*args: object, **named: object) -> logging.LogRecord:
        entry = make(*args, **named)
        info = entry.exc_info
        if info and info[0] is not None:
            entry.exc_text = location(info[0], info[2])  # a formatter takes this as it is
        return entry

    logging.setLogRecordFactory(record)
    sys.excepthook = lambda kind, _, at: print(location(kind, at), file=sys.stderr)
