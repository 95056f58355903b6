"""Chromium asked for one picture, and stopped where it doesn't answer."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from queue import Empty, Queue
from typing import Any

from gpt2viz.errors import ExportError

#: Seconds that a picture may take, and that it may wait for others.
LIMIT = 60

#: Where a person may name the browser, in the environment.
_NAMED = ("CHROMIUM", "BROWSER_PATH")
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# One Chromium at a time: each takes a quarter of a gigabyte.
_TURN = threading.Lock()


def can_draw() -> bool:
    """True if this machine can run ``figure_bytes``: it has kaleido, and Chromium or Chrome."""
    return not missing()


def missing() -> str:
    """The packages that ``figure_bytes`` lacks here, with commands to install them; or ""."""
    lacks = []
    if find_spec("kaleido") is None:
        lacks.append(f"kaleido (`{sys.executable} -m pip install 'gpt2viz[export]'`)")
    if browser() is None:
        lacks.append(
            "Chromium or Chrome (such as `apt-get install chromium`, or `kaleido_get_chrome`)"
        )
    if not lacks:
        return ""
    named = next((f" {name} names no program." for name in _NAMED if os.environ.get(name)), "")
    return (
        "A picture as .svg, .pdf or .png is drawn by Chromium through kaleido. Missing here: "
        f"{' and '.join(lacks)}.{named if browser() is None else ''} One as .html needs neither."
    )


def browser() -> str | None:
    """Chromium or another browser of its kind; ``CHROMIUM`` and ``BROWSER_PATH`` come first."""
    for name in _NAMED:
        if os.environ.get(name):
            return shutil.which(os.environ[name])
    if find_spec("choreographer") is None:  # it comes with kaleido
        return next(filter(None, map(shutil.which, _CHROMIUM)), None)
    from choreographer.browsers.chromium import Chromium

    return Chromium.find_browser(skip_local=False)


def draw(figure: Mapping[str, Any], options: Mapping[str, Any], browser: str | None) -> bytes:
    """A Plotly figure drawn by the ``browser`` at that path, with kaleido's ``options``.

    Raises ``ExportError`` where it fails, or has no picture within ``LIMIT`` seconds.
    """
    if not _TURN.acquire(timeout=LIMIT):
        raise ExportError(f"Other pictures have kept Chromium busy for {LIMIT} seconds. Try again.")
    try:
        return _draw(figure, options, browser)
    finally:
        _TURN.release()


def _draw(figure: Mapping[str, Any], options: Mapping[str, Any], browser: str | None) -> bytes:
    import kaleido

    opened: list[kaleido.Kaleido] = []
    answer: Queue[bytes | BaseException] = Queue()

    async def ask() -> bytes:
        # MathJax would come from the network; labels are never LaTeX.
        opened.append(kaleido.Kaleido(n=1, mathjax=False, path=browser, timeout=LIMIT))
        async with opened[0] as drawing:
            made: bytes = await drawing.calc_fig(figure, opts=dict(options))
            return made

    def work() -> None:
        try:
            answer.put(asyncio.run(ask()))
        except BaseException as error:  # handed on to whoever waits
            answer.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        result = answer.get(timeout=LIMIT)
    except Empty:
        _end(opened)
        raise ExportError(
            f"Chromium has not drawn the picture within {LIMIT} seconds and was stopped. Try "
            "again; a picture as .html needs no Chromium."
        ) from None
    if isinstance(result, bytes):
        return result
    if isinstance(result, Exception):
        why = str(result) or type(result).__name__
        raise ExportError(f"Chromium could not draw the picture: {why}") from result
    raise result


def _end(opened: Sequence[Any]) -> None:
    """End a browser that can't be asked to, with all that it started: a session of its own."""
    for browser in opened:
        process = getattr(browser, "subprocess", None)
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
