"""The pages of this process: Streamlit's settings, heavy imports, and the start."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from socket import create_connection
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from gpt2viz import settings

#: Slow imports of the pages: torch and pandas, and no module of Streamlit's.
HEAVY = (
    "gpt2viz.run.tracer",
    "gpt2viz.model.hub",
    "gpt2viz.export",
)


def streamlit_settings(host: str, port: int, answers: Sequence[str]) -> dict[str, Any]:
    """Streamlit's settings for a server at ``host`` and ``port`` that ``answers`` to names."""
    return {
        "server.address": host,
        "server.port": port,
        "server.allowedHosts": list(answers),
        # Streamlit doesn't open a browser for an ``st.App``; without a terminal it prompts nothing.
        "server.headless": True,
        # Streamlit draws the first page for it; only our own check uses it.
        "server.scriptHealthCheckEnabled": True,
        # Streamlit's welcome asks a website for this machine's address, and shows a box over the
        # pages that offers help to app developers.
        "logger.hideWelcomeMessage": True,
    }


def answers(host: str, names: Sequence[str]) -> list[str]:
    """The host names that a server at ``host`` accepts; its owner allows ``names``."""
    # The names of a machine that serves others can't all be known.
    return [*settings.LOCAL, *names] if names or host in settings.LOCAL else ["*"]


def load_heavy() -> None:
    """Import the modules that pages need."""
    for name in HEAVY:
        import_module(name)


def open_app(config: Mapping[str, Any], given: Sequence[str], browser: str | None = None) -> None:
    """Serve the pages until stopped; ``config`` is Streamlit's, ``given`` the app's arguments.

    The server reports that it is ready once its first page is drawn, or at once if a ``browser``
    is opened at that address: it fetches scripts meanwhile, and would retry only after a while.
    """
    if not settings.has_home():  # Streamlit looks for its settings there, and raises without one
        os.environ["HOME"] = str(settings.APP)
    sys.argv = [str(settings.APP / "app.py"), *given]
    # Imported only here: it takes as long as everything else.
    app = import_module("gpt2viz.app.server").create(at_once=browser is not None)
    Thread(target=load_heavy, daemon=True).start()
    if browser is not None:
        Thread(target=_open_browser, args=(browser,), daemon=True).start()
    app.run(config=config)


def _open_browser(address: str) -> None:
    """Open a browser once the server listens: earlier it would show an error."""
    server = urlsplit(address)
    while True:
        with suppress(OSError), create_connection((server.hostname, server.port), timeout=1):
            break
        time.sleep(0.1)
    webbrowser.open(address)
