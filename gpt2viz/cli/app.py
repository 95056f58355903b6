"""``gpt2viz app``: the pages in a browser, from a clone or from an installed package."""

from __future__ import annotations

import os
import socket
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import click

from gpt2viz import settings
from gpt2viz.cli import options
from gpt2viz.extras import missing
from gpt2viz.model import places

#: What a page imports that takes long: torch, pandas and Plotly, and no module of Streamlit's.
_HEAVY = (
    "gpt2viz.run.tracer",
    "gpt2viz.pictures.plotly.render",
    "gpt2viz.model.hub",
    "gpt2viz.export",
)


@click.command()
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    metavar="NAME|FOLDER",
    help="Show this model too, from a folder or the hub's cache; can be repeated.",
)
@click.option(
    "--allow-model",
    "names",
    multiple=True,
    metavar="NAME",
    help='What visitors may fetch from the hub; can be repeated, "*" for all.',
)
@options.device
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="0.0.0.0 lets other machines in.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="What browsers call the server, such as a proxy's name; can be repeated.",
)
@click.option("--browser/--no-browser", default=True, help="Open a browser.", show_default=True)
def app(
    models: tuple[str, ...],
    names: tuple[str, ...],
    device: str,
    port: int,
    host: str,
    hosts: tuple[str, ...],
    browser: bool,
) -> None:
    """Open the app; Ctrl-C ends it.

    Only this machine can reach it unless --host says otherwise, and models are
    fetched by name only where --allow-model says which.

    \b
        gpt2viz app
        gpt2viz app --model ~/models/mine --port 8600
        gpt2viz app --host 0.0.0.0 --allow-model gpt2 --no-browser
    """
    if find_spec("streamlit") is None:
        raise missing("gpt2viz app", "app", "streamlit")
    folders = _checked(models, device)
    _free(host, port)
    given = [part for folder in folders for part in ("--model", str(settings.real(folder)))]
    given += [part for name in names for part in ("--allow-model", name)]
    given += ["--device", device]
    flags = _flags(host, port, hosts, browser)
    click.echo(f"Starting gpt2viz at {_address(host, port, hosts)}; Ctrl-C ends it.")
    if not settings.has_home():  # Streamlit looks for its settings there, and raises without one
        os.environ["HOME"] = str(settings.APP)
    # Loaded only here: it takes as long as all the rest.
    from streamlit.web import cli

    import_module("gpt2viz.app.guard").stand()  # before anybody can connect
    Thread(target=_load_ahead, daemon=True).start()
    sys.argv = ["streamlit", "run", str(settings.APP / "app.py"), *flags, "--", *given]
    cli.main(sys.argv[1:], prog_name="streamlit", standalone_mode=False)


def _checked(models: tuple[str, ...], device: str) -> list[Path]:
    """The models' folders. What can't be loaded is said here, and not on a page."""
    folders = [places.find(model)[1] for model in models]
    for folder in folders:
        from gpt2viz.model.checkpoint import weight_bytes  # torch takes a second

        weight_bytes(folder)
    if device != "cpu":
        from gpt2viz.model import devices

        devices.find(device)
    return folders


def _flags(host: str, port: int, hosts: tuple[str, ...], browser: bool) -> list[str]:
    """What Streamlit is told of where it serves, and to whom it answers."""
    flags = ["--server.port", str(port), "--server.address", host]
    flags += ["--server.headless", str(not browser).lower()]
    # Of a server for others, nobody knows all names that its machine has.
    answers = [*settings.LOCAL, *hosts] if hosts or host in settings.LOCAL else ["*"]
    flags += [part for name in answers for part in ("--server.allowedHosts", name)]
    # Streamlit's welcome asks a site for this machine's address, and brings a box over the pages
    # that offers help to those who write apps.
    return [*flags, "--logger.hideWelcomeMessage", "true"]


def _load_ahead() -> None:
    """Import what pages need, while the browser still fetches Streamlit's own files."""
    for name in _HEAVY:
        import_module(name)


def _address(host: str, port: int, hosts: tuple[str, ...]) -> str:
    """Where a browser finds the app; for every host, here and from other machines."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 (only compared)
        others = f"http://{hosts[0] if hosts else socket.gethostname()}:{port}"
        return f"http://localhost:{port}, for other machines {others}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _free(host: str, port: int) -> None:
    """Raise ``click.ClickException`` where nobody can listen on that address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = error.strerror or str(error)
            raise click.ClickException(f"{host}:{port} can't be used: {why}") from None
