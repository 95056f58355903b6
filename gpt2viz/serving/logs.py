"""What a server writes down: where something went wrong, and nobody's text.

An exception's message may hold what a visitor typed, so a worker's log has only its place and kind.
"""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType


def place(kind: type[BaseException], at: TracebackType | None) -> str:
    """An exception as a traceback without its message: our files and lines, and its kind."""
    lines = traceback.format_tb(at)
    return f"Traceback (most recent call last):\n{''.join(lines)}{kind.__name__} (message left out)"


def leave_texts_out() -> None:
    """Have every logger of this process write exceptions as ``place`` does, from now on."""
    make = logging.getLogRecordFactory()

    def record(*args: object, **named: object) -> logging.LogRecord:
        made = make(*args, **named)
        info = made.exc_info
        if info and info[0] is not None:
            made.exc_text = place(info[0], info[2])  # what a formatter finds here, it takes
        return made

    logging.setLogRecordFactory(record)
    sys.excepthook = lambda kind, _, at: print(place(kind, at), file=sys.stderr)
