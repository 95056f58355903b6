"""``gpt2viz trace``: one tensor of a run on the terminal or in files, or the whole run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from gpt2viz.cli import options
from gpt2viz.cli.tensor import KINDS, choose
from gpt2viz.errors import StageError
from gpt2viz.export import PICTURE_KINDS, TRACE_KINDS
from gpt2viz.labels import escape_controls
from gpt2viz.pictures.panel import Panel
from gpt2viz.run.stages import STAGE, from_transformer_lens
from gpt2viz.run.trace import Trace

#: The stages whose numbers a run keeps, for models of every family.
KEPT = [stage.key for stage in STAGE.values() if stage.keep]
#: The most rows and columns to print; files and --json have all.
PRINTED = 12


@click.command()
@options.runs_a_model
@click.option("-l", "--layer", type=click.IntRange(0), help="0 if not given.")
@click.option("-H", "--head", type=click.IntRange(0), help="0 if not given.")
@click.option(
    "-s",
    "--stage",
    metavar="STAGE",
    help=f"One of the model's: {' '.join(KEPT)}; or TransformerLens' name for one, which names the "
    "layer too.",
    default="weights",
    show_default=True,
)
@options.file_option(KINDS)
@click.option(
    "--width",
    metavar="LENGTH",
    callback=options.to_pixels,
    help="Lay out svg, pdf and png for a column's width: 8.5cm, 85mm, 3.35in or 241pt.",
)
def trace(
    run: options.Run,
    as_json: bool,
    quiet: bool,
    layer: int | None,
    head: int | None,
    stage: str,
    out: tuple[Path, ...],
    width: int | None,
) -> None:
    """Run the model on TEXT ("-" reads stdin) and show one tensor.

    Rows are queries, columns are keys; layers and heads count from 0. The
    files .npz and .safetensors hold the whole run, all layers and heads; for
    a long text without scores and weights, which follow from q, k and v. The
    others hold the chosen tensor. pdf and png need gpt2viz[export].

    \b
        gpt2viz trace "A crane ate fish" --layer 3 --head 2
        gpt2viz trace "A crane ate fish" -l 3 -H 2 --stage scores --out scores.svg
        gpt2viz trace "A crane ate fish" --out column.pdf --width 8.5cm
        gpt2viz trace "A crane ate fish" --out run.npz --out weights.csv
        echo "A crane ate fish" | gpt2viz trace - --json
    """
    kinds = {options.kind_of(path, KINDS) for path in out}
    if width and not kinds.intersection(PICTURE_KINDS):
        raise click.UsageError("--width is for pictures: name one with --out (svg, pdf, png)")
    _, made = run()
    key, layer = _stage_and_layer(made, stage, layer, head)
    tensor = choose(made, key, layer or 0, head or 0)
    for path in out:
        tensor.save(path, width)
        options.note(quiet, f"Wrote {path}")
    if not tensor.run.explicit and kinds.intersection(TRACE_KINDS):
        options.note(quiet, "Without scores and weights: for a long text they follow from q, k, v.")
    if as_json:
        options.print_json(tensor.document)
    elif not out:
        click.echo(escape_controls(f"{tensor.panel.title} · {tensor.run.model_name}"))
        click.echo(_table(tensor.panel))
        if max(tensor.panel.values.shape) > PRINTED:
            options.note(quiet, "Shortened; --json and --out give all of it.")


def _stage_and_layer(
    run: Trace, name: str, layer: int | None, head: int | None
) -> tuple[str, int | None]:
    """The stage of a run and its layer, by our name and --layer, or by TransformerLens' name.

    Raises ``click.UsageError`` for an unknown stage or one that the run doesn't keep, for a layer
    or head of a stage that belongs to none, and for two layers.
    """
    known = [stage.key for stage in run.graph.values() if stage.keep]
    key, named = name, None
    if "hook_" in name:
        with suppress(StageError):
            key, named = from_transformer_lens(name, run.config.n_layer, run.graph)
    if key not in known:
        names = ", ".join(map(repr, known))
        raise click.BadParameter(f"{name!r} is not one of {names}.", param_hint="'--stage'")
    stage = run.graph[key]
    if layer is not None and not stage.per_layer:
        raise click.UsageError(f"{key} belongs to no layer: leave --layer out")
    if None not in (named, layer) and named != layer:
        raise click.UsageError(f"--stage names layer {named}: leave --layer out")
    if head is not None and not stage.of_head:
        raise click.UsageError(f"{key} belongs to no head: leave --head out")
    return key, layer if named is None else named


def _table(panel: Panel) -> str:
    """A matrix's rows and columns with their names; of many, the first and the last."""
    rows, across = (_printed_indices(len(axis.labels)) for axis in (panel.rows, panel.columns))
    down, names = panel.rows.plain_names(), panel.columns.plain_names()
    table = [
        [panel.columns.title, *("…" if m is None else names[m] for m in across)],
        [panel.rows.title, *("" for _ in across)],
    ]
    for n in rows:
        numbers = ("…" if n is None or m is None else f"{panel.values[n, m]:.3f}" for m in across)
        table.append(["…" if n is None else down[n], *numbers])
    return options.align(table, left=1)


def _printed_indices(n_names: int) -> list[int | None]:
    """The indices of the rows or columns to print; None stands for those in between."""
    if n_names <= PRINTED:
        return list(range(n_names))
    half = PRINTED // 2
    return [*range(half), None, *range(n_names - half, n_names)]
