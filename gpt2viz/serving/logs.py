"""Logs of a server, without visitors' texts.

An exception's message may quote what a visitor typed, so a log has only its type and location.
"""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType


def location(kind: type[BaseException], at: TracebackType | None) -> str:
    """Format an exception as a traceback without its message: files and lines, and its type."""
    lines = traceback.format_tb(at)
    return f"Traceback (most recent call last):\n{''.join(lines)}{kind.__name__} (message left out)"


def leave_texts_out() -> None:
    """Make every logger of this process format exceptions with ``location`` from now on."""
    make = logging.getLogRecordFactory()

    def record(*args: object, **named: object) -> logging.LogRecord:
        entry = make(*args, **named)
        info = entry.exc_info
        if info and info[0] is not None:
            entry.exc_text = location(info[0], info[2])  # a formatter uses this unchanged
        return entry

    logging.setLogRecordFactory(record)
    sys.excepthook = lambda kind, _, at: print(location(kind, at), file=sys.stderr)
