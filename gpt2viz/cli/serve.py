"""``gpt2viz serve``: the pages for many visitors, by several processes behind a proxy."""

from __future__ import annotations

import os
import re
import sys

import click

from gpt2viz import settings
from gpt2viz.cli import served
from gpt2viz.errors import ServeError
from gpt2viz.serving import proxy


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
@served.models
@served.names
@served.port
@served.host
@served.hosts
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
    served.installed("gpt2viz serve")
    if sys.platform != "linux":
        raise ServeError("gpt2viz serve needs Linux; `gpt2viz app` serves here, by one process")
    proxy.find()
    folders = served.checked(models)
    served.free(host, port)
    served.free(metrics_host, metrics_port)
    click.echo(
        f"Starting gpt2viz at {served.address(host, port, hosts)}, {workers} of its processes; "
        "Ctrl-C ends it."
    )
    from gpt2viz.serving import workers as processes  # torch takes a second

    server = processes.ServerSettings(
        workers=workers,
        host=host,
        port=port,
        names=hosts,
        health=(metrics_host, metrics_port),
        given=served.given(folders, names),
        frames=frames,
        folders=settings.by_name([*folders, *settings.folders()]),
    )
    processes.serve(server, lambda line: click.echo(f"gpt2viz: {line}", err=True))
