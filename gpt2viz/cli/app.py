"""``gpt2viz app``: the pages in a browser, from a clone or from an installed package."""

from __future__ import annotations

import click

from gpt2viz.cli import options, served
from gpt2viz.serving import pages


@click.command()
@served.models
@served.names
@options.device
@served.port
@served.host
@served.hosts
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
    served.installed("gpt2viz app")
    folders = served.checked(models, device)
    served.free(host, port)
    given = [*served.given(folders, names), "--device", device]
    config = pages.streamlit_settings(host, port, pages.answers(host, hosts))
    click.echo(f"Starting gpt2viz at {served.address(host, port, hosts)}; Ctrl-C ends it.")
    own = f"http://{'localhost' if host in ('0.0.0.0', '::') else host}:{port}"  # noqa: S104
    pages.open_app(config, given, browser=own if browser else None)
