"""``gpt2viz app`` and ``gpt2viz serve``: the pages for a few users, or for many behind a proxy."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from gpt2viz import settings
from gpt2viz.cli import options
from gpt2viz.errors import ServeError
from gpt2viz.extras import missing
from gpt2viz.model import model_registry
from gpt2viz.serving import pages, proxy

_EVERY_HOST = ("0.0.0.0", "::")  # noqa: S104 (only compared)
_models = click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    metavar="NAME|FOLDER",
    help="Show this model too, from a folder, a GGUF file or the hub's cache; can be repeated.",
)
_names = click.option(
    "--allow-model",
    "names",
    multiple=True,
    metavar="NAME",
    help='What visitors may fetch from the hub; can be repeated, "*" for all.',
)
_port = click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
_host = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="0.0.0.0 lets other machines in.",
)
_hosts = click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="What browsers call the server, such as a proxy's name; can be repeated.",
)


@click.command()
@_models
@_names
@options.device
@_port
@_host
@_hosts
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
    check_streamlit("gpt2viz app")
    folders = check_folders(models, device)
    check_free(host, port)
    arguments = [*app_arguments(folders, names), "--device", device]
    config = pages.streamlit_settings(host, port, pages.answers(host, hosts))
    click.echo(f"Starting gpt2viz at {addresses(host, port, hosts)}; Ctrl-C ends it.")
    pages.open_app(config, arguments, browser=address(host, port) if browser else None)


def _origins(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    for origin in given:
        if not re.fullmatch(r"https?://[\w.*-]+(:[0-9]+)?", origin):
            raise click.BadParameter(
                f"{origin!r:.60} isn't a site, as in https://course.example.org"
            )
    return given


@click.command()
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=lambda: min(64, os.cpu_count() or 1),
    show_default="one a processor",
    help="How many processes serve pages.",
)
@_models
@_names
@_port
@_host
@_hosts
@click.option(
    "--frame-on",
    "frames",
    multiple=True,
    metavar="ORIGIN",
    callback=_origins,
    help="A site whose pages may show these, such as https://course.example.org; may be repeated.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    default=8502,
    show_default=True,
    help="Where /metrics is, for Prometheus.",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    help="0.0.0.0 shows them to other machines.",
)
def serve(
    workers: int,
    models: tuple[str, ...],
    names: tuple[str, ...],
    port: int,
    host: str,
    hosts: tuple[str, ...],
    frames: tuple[str, ...],
    metrics_port: int,
    metrics_host: str,
) -> None:
    """Serve the app to many visitors by several processes; Ctrl-C ends it.

    The processes share the models' memory and stand behind the proxy Caddy,
    which has to be installed. A process that dies is started again. Only for
    Linux, on CPUs: on a GPU use `gpt2viz app`.

    \b
        gpt2viz serve --workers 4
        gpt2viz serve --workers 4 --host 0.0.0.0 --allow-host viz.example.org
    """
    check_streamlit("gpt2viz serve")
    if sys.platform != "linux":
        raise ServeError("gpt2viz serve needs Linux; `gpt2viz app` serves here, by one process")
    proxy.find()
    folders = check_folders(models)
    check_free(host, port)
    check_free(metrics_host, metrics_port)
    if port == metrics_port:
        raise click.UsageError(f"--port and --metrics-port are both {port}")
    click.echo(
        f"Starting gpt2viz at {addresses(host, port, hosts)} (workers: {workers}); Ctrl-C ends it."
    )
    from gpt2viz.serving import workers as processes  # torch takes a second

    server = processes.ServerSettings(
        workers=workers,
        host=host,
        port=port,
        names=hosts,
        health=(metrics_host, metrics_port),
        given=app_arguments(folders, names),
        frames=frames,
        folders=settings.name_paths([*folders, *settings.folders()]),
    )
    processes.serve(server, lambda line: click.echo(f"gpt2viz: {line}", err=True))


def check_streamlit(command: str) -> None:
    """Raise ``MissingExtraError`` if Streamlit is missing for that command."""
    if find_spec("streamlit") is None:
        raise missing(command, "app", "streamlit")


def check_folders(given: Sequence[str], device: str = "cpu") -> list[Path]:
    """The models' folders, checked, so that a broken one is an error here and not on a page."""
    folders = [model_registry.find(model)[1] for model in given]
    for folder in folders:
        from gpt2viz.model.checkpoint import weight_bytes  # torch takes a second

        weight_bytes(folder)
    if device != "cpu":
        from gpt2viz.model import devices

        devices.find(device)
    return folders


def app_arguments(folders: Sequence[Path], allowed: Sequence[str]) -> list[str]:
    """The arguments for the owner's models, as ``gpt2viz.app.server_config`` reads them."""
    arguments = [part for folder in folders for part in ("--model", str(settings.real(folder)))]
    return arguments + [part for name in allowed for part in ("--allow-model", name)]


def address(host: str, port: int) -> str:
    """The app's address for a browser on this machine."""
    here = "localhost" if host in _EVERY_HOST else f"[{host}]" if ":" in host else host
    return f"http://{here}:{port}"


def addresses(host: str, port: int, hosts: Sequence[str]) -> str:
    """The app's address; for every host, both here and from other machines."""
    if host not in _EVERY_HOST:
        return address(host, port)
    others = address(hosts[0] if hosts else socket.gethostname(), port)
    return f"{address(host, port)}, for other machines {others}"


def check_free(host: str, port: int) -> None:
    """Raise ``click.ClickException`` if that address can't be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host or "no host", port))  # an empty one would listen on all addresses
        except OSError as error:
            why = error.strerror or str(error)
            raise click.ClickException(f"{host}:{port} can't be used: {why}") from None
