"""``gpt2viz trace``: one tensor of a run on the terminal or in files, or the whole run."""

from __future__ import annotations

from pathlib import Path

import click

from gpt2viz.cli import options
from gpt2viz.cli.files import file_option, kind_of
from gpt2viz.cli.tensor import KINDS, choose
from gpt2viz.export import TRACE_KINDS
from gpt2viz.stages import STAGES

#: The stages whose numbers a run keeps.
KEPT = [stage.key for stage in STAGES if stage.kept]
#: Rows and columns that are printed; all of them are in files and in --json.
PRINTED = 12


@click.command()
@options.runs_a_model
@click.option("-l", "--layer", type=click.IntRange(0), default=0, show_default=True)
@click.option("-H", "--head", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "-s",
    "--stage",
    type=click.Choice(KEPT),
    metavar="STAGE",
    help=f"One of: {' '.join(KEPT)}.",
    default="weights",
    show_default=True,
)
@file_option(KINDS)
def trace(
    run: options.Run,
    as_json: bool,
    quiet: bool,
    layer: int,
    head: int,
    stage: str,
    out: tuple[Path, ...],
) -> None:
    """Run the model on TEXT ("-" reads stdin) and show one tensor.

    Rows are queries, columns are keys; layers and heads count from 0. The
    files .npz and .safetensors hold the whole run, all layers and heads, but
    of a long text no scores and weights, which follow from q, k and v; the
    others hold the chosen tensor. svg, pdf and png need kaleido and Chromium.

    \b
        gpt2viz trace "A crane ate fish" --layer 3 --head 2
        gpt2viz trace "A crane ate fish" -l 3 -H 2 --stage scores --out scores.svg
        gpt2viz trace "A crane ate fish" --out run.npz --out weights.csv
        echo "A crane ate fish" | gpt2viz trace - --json
    """
    for path in out:
        kind_of(path, KINDS)
    tensor = choose(run(), stage, layer, head)
    for path in out:
        tensor.save(path)
        options.note(quiet, f"Wrote {path}")
    if not tensor.run.explicit and any(kind_of(path, KINDS) in TRACE_KINDS for path in out):
        options.note(quiet, "Without scores and weights: of a long text they follow from q, k, v.")
    if as_json:
        options.print_json(tensor.document)
    elif not out:
        click.echo(f"{tensor.panel.title} · {tensor.run.model_name}")
        click.echo(
            tensor.table.to_string(
                float_format=lambda x: f"{x:.3f}",
                max_rows=PRINTED,
                max_cols=PRINTED,
                line_width=None,
            )
        )
        if max(tensor.panel.values.shape) > PRINTED:
            options.note(quiet, "Shortened; --json and --out give all of it.")
