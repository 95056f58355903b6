"""The pages in this process: what Streamlit is told, what is loaded before, and its start."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from threading import Thread

from gpt2viz import settings

#: What a page imports that takes long: torch, pandas and Plotly, and no module of Streamlit's.
HEAVY = (
    "gpt2viz.run.tracer",
    "gpt2viz.pictures.plotly.render",
    "gpt2viz.model.hub",
    "gpt2viz.export.card",
    "gpt2viz.export.pictures",
)


def flags(host: str, port: int, answers: Sequence[str], browser: bool) -> list[str]:
    """What Streamlit is told of where it serves, and to whom it ``answers``."""
    told = ["--server.port", str(port), "--server.address", host]
    told += ["--server.headless", str(not browser).lower()]
    told += [part for name in answers for part in ("--server.allowedHosts", name)]
    # Streamlit's welcome asks a site for this machine's address, and brings a box over the pages
    # that offers help to those who write apps.
    return [*told, "--logger.hideWelcomeMessage", "true"]


def answers(host: str, names: Sequence[str]) -> list[str]:
    """What browsers may call a server at ``host``, whose owner allows these names."""
    # Of a server for others, nobody knows all names that its machine has.
    return [*settings.LOCAL, *names] if names or host in settings.LOCAL else ["*"]


def load_heavy() -> None:
    """Import what pages need."""
    for name in HEAVY:
        import_module(name)


def open_app(told: Sequence[str], given: Sequence[str], at_once: bool = False) -> None:
    """Serve the pages until somebody ends it; ``told`` is Streamlit's, ``given`` the app's own.

    The server says that it is ready when its first page is, or ``at_once``: for a browser that is
    opened with it, which fetches scripts meanwhile, and would ask again only after a while.
    """
    if not settings.has_home():  # Streamlit looks for its settings there, and raises without one
        os.environ["HOME"] = str(settings.APP)
    # Loaded only here: it takes as long as all the rest.
    from streamlit.web import cli

    import_module("gpt2viz.app.guard").stand()  # before anybody can connect
    import_module("gpt2viz.app.sparing").begin()
    if not at_once:
        import_module("gpt2viz.app.compat").ready_with_first_page()
    Thread(target=load_heavy, daemon=True).start()
    sys.argv = ["streamlit", "run", str(settings.APP / "app.py"), *told, "--", *given]
    cli.main(sys.argv[1:], prog_name="streamlit", standalone_mode=False)
