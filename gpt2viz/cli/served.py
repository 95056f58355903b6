"""Options that ``gpt2viz app`` and ``gpt2viz serve`` share: addresses, models and their limits."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from gpt2viz import settings
from gpt2viz.errors import MissingExtraError
from gpt2viz.extras import missing
from gpt2viz.model import model_registry

models = click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    metavar="NAME|FOLDER",
    help="Show this model too, from a folder, a GGUF file or the hub's cache; can be repeated.",
)
names = click.option(
    "--allow-model",
    "names",
    multiple=True,
    metavar="NAME",
    help='What visitors may fetch from the hub; can be repeated, "*" for all.',
)
port = click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
host = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="0.0.0.0 lets other machines in.",
)
hosts = click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="What browsers call the server, such as a proxy's name; can be repeated.",
)


def installed(command: str) -> None:
    """Raise ``MissingExtraError`` where there is no Streamlit for that command."""
    if find_spec("streamlit") is None:
        message = missing(command, "app", "streamlit")
        raise MissingExtraError(f"{message}, or uvx --from 'gpt2viz[app]' {command}")


def checked(given: Sequence[str], device: str = "cpu") -> list[Path]:
    """The models' folders. One that can't be loaded is an error here, and not on a page."""
    folders = [model_registry.find(model)[1] for model in given]
    for folder in folders:
        from gpt2viz.model.checkpoint import weight_bytes  # torch takes a second

        weight_bytes(folder)
    if device != "cpu":
        from gpt2viz.model import devices

        devices.find(device)
    return folders


def given(folders: Sequence[Path], allowed: Sequence[str]) -> list[str]:
    """The settings of the owner's models, as ``gpt2viz.app.server_config`` reads them."""
    arguments = [part for folder in folders for part in ("--model", str(settings.real(folder)))]
    return arguments + [part for name in allowed for part in ("--allow-model", name)]


def address(host: str, port: int, hosts: Sequence[str]) -> str:
    """The app's address for a browser; for every host, here and from other machines."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 (only compared)
        others = f"http://{hosts[0] if hosts else socket.gethostname()}:{port}"
        return f"http://localhost:{port}, for other machines {others}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def free(host: str, port: int) -> None:
    """Raise ``click.ClickException`` where nobody can listen on that address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = error.strerror or str(error)
            raise click.ClickException(f"{host}:{port} can't be used: {why}") from None
