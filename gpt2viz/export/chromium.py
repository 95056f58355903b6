"""Chromium, which runs a page's scripts and returns their result, and is killed if it hangs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote

from gpt2viz.errors import ExportError

#: Seconds that a page may take, and that it may wait for other pages.
LIMIT = 60

#: Environment variables that may name the browser.
_NAMED = ("CHROMIUM", "BROWSER_PATH")
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = ("--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_BODY = re.compile("<body>(.*)</body>", re.DOTALL)

# One Chromium at a time: each takes a quarter of a gigabyte.
_LOCK = threading.Lock()


def browser() -> str | None:
    """Chromium or another browser of its kind; ``CHROMIUM`` and ``BROWSER_PATH`` come first."""
    for name in _NAMED:
        if os.environ.get(name):
            return shutil.which(os.environ[name])
    return next(filter(None, map(shutil.which, _CHROMIUM)), None)


def require_browser() -> str:
    """The path of ``browser``. Raises ``ExportError`` if there is none."""
    if program := browser():
        return program
    named = next((f" {name} names no program." for name in _NAMED if os.environ.get(name)), "")
    raise ExportError(
        "Curves and bars as .svg, .pdf or .png are drawn by Chromium or Chrome, which isn't here: "
        f"`apt-get install chromium`, or set CHROMIUM to its path.{named} As .html they need none."
    )


def run_page(html: str) -> str:
    """The text that the scripts of a page leave in its body, as ``encodeURIComponent`` writes it.

    Raises ``ExportError`` if there is no browser, or it fails, or doesn't finish within
    ``LIMIT`` seconds.
    """
    program = require_browser()
    if not _LOCK.acquire(timeout=LIMIT):
        raise ExportError(f"Other pictures have kept Chromium busy for {LIMIT} seconds. Try again.")
    try:
        with TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            page.write_text(html, encoding="utf-8")
            root = hasattr(os, "geteuid") and os.geteuid() == 0  # it refuses a sandbox as root
            alone = ["--no-sandbox"] if root else []
            profile = f"--user-data-dir={folder}/profile"
            answer = _answer([program, *_FLAGS, *alone, profile, "--dump-dom", page.as_uri()])
    finally:
        _LOCK.release()
    body = _BODY.search(answer)
    if not body:
        raise ExportError("Chromium could not draw the picture. As .html it needs no Chromium.")
    return unquote(body[1])


def _answer(command: list[str]) -> str:
    """The output of a program, which is killed after ``LIMIT`` seconds, with its children."""
    with subprocess.Popen(  # noqa: S603 (the browser that the owner named, and a page of ours)
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            return process.communicate(timeout=LIMIT)[0].decode()
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):  # not on Windows
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            raise ExportError(
                f"Chromium has not drawn the picture within {LIMIT} seconds and was stopped. Try "
                "again; a picture as .html needs no Chromium."
            ) from None
