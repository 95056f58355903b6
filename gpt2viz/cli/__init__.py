"""The command ``gpt2viz``: the app, and what can be had without it."""

from __future__ import annotations

import click

from gpt2viz import __version__
from gpt2viz.cli.app import app
from gpt2viz.cli.group import Group
from gpt2viz.cli.heads import heads
from gpt2viz.cli.models import convert, models
from gpt2viz.cli.shapes import shapes
from gpt2viz.cli.trace import trace


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="gpt2viz %(version)s")
def main() -> None:
    """See how a GPT-2 reads a sentence.

    \b
        gpt2viz app                                     open the app
        gpt2viz trace "A crane ate fish" --layer 3      the weights of head 0
        gpt2viz trace "A crane ate fish" --out x.html   the same as a page
        gpt2viz shapes "A crane ate fish"               every tensor of the run

    Exit codes: 0 done; 1 the input can't be done; 2 the command was used
    wrongly; 130 stopped. Results go to stdout, progress and errors to stderr.
    """


for command in (app, trace, shapes, heads, models, convert):
    main.add_command(command)
