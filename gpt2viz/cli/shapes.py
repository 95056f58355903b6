"""``gpt2viz shapes``: every tensor of a run, in the order of computation."""

from __future__ import annotations

from pathlib import Path

import click

from gpt2viz.cli import options
from gpt2viz.export import TABLE_KINDS, about, save_table
from gpt2viz.pictures.shapes import shape_rows

#: The columns that fit on a terminal's line; the others are in --json and in files.
SHOWN = ("layer", "tensor", "axes", "shape", "bytes", "parameters", "operation")


@click.command()
@options.runs_a_model
@options.file_option(TABLE_KINDS)
def shapes(run: options.Run, as_json: bool, quiet: bool, out: tuple[Path, ...]) -> None:
    """List every tensor of the run on TEXT ("-" reads stdin).

    \b
        gpt2viz shapes "A crane ate fish"
        gpt2viz shapes "A crane ate fish" --json
        cat story.txt | gpt2viz shapes - --out shapes.csv
    """
    for path in out:
        options.kind_of(path, TABLE_KINDS)
    _, made = run()
    rows = shape_rows(made)
    for path in out:
        from gpt2viz.pictures.tables import shape_table  # pandas takes a while

        save_table(shape_table(made), path, about(made, "shapes"))
        options.note(quiet, f"Wrote {path}")
    if as_json:
        options.print_json(rows)
    elif not out:
        click.echo(options.format_rows(rows, SHOWN))
