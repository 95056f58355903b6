"""``gpt2viz trace``: one tensor of a run on the terminal or in files, or the whole run."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpt2viz import export, files
from gpt2viz.cli import options
from gpt2viz.errors import StageError
from gpt2viz.export import PICTURE_KINDS, TABLE_KINDS, TRACE_KINDS, About, about
from gpt2viz.labels import escape_controls
from gpt2viz.pictures.from_trace import stage_panel, stage_picture
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.run.stages import STAGE, from_transformer_lens
from gpt2viz.run.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

#: The endings of files, pictures first.
KINDS = (*PICTURE_KINDS, "html", *TABLE_KINDS, "json", *TRACE_KINDS)
#: The stages whose numbers a run keeps, for models of every family.
STORED = [stage.key for stage in STAGE.values() if stage.keep]
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
    help=f"One of the model's: {' '.join(STORED)}; or TransformerLens' name for one, which names "
    "the layer too.",
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
    tensor = choose(made, stage, layer, head)
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


@dataclass(frozen=True, eq=False)
class Tensor:
    """One stage of a run. ``layer`` and ``head`` are None if the stage belongs to none."""

    run: Trace
    key: str
    layer: int | None
    head: int | None

    @property
    def about(self) -> About:
        """The origin of the numbers, for a file."""
        return about(self.run, self.run.graph[self.key].label, self.layer, self.head)

    @cached_property
    def panel(self) -> Panel:
        """The numbers (T, T), (T, hs) or (T, C) with the tokens as labels."""
        run = self.run
        return stage_panel(run, run.labels, self.key, self.layer, self.head, self.about.title)

    @property
    def table(self) -> pd.DataFrame:
        """The numbers as a table whose rows and columns have names."""
        from gpt2viz.pictures.tables import panel_table

        return panel_table(self.panel)

    @property
    def picture(self) -> Heatmaps:
        """The numbers as a heatmap; above 256 rows or columns each cell is a block's largest."""
        return stage_picture(self.run, self.key, self.layer, self.head)

    @property
    def document(self) -> dict[str, Any]:
        """The content for JSON: origin, tokens, shape and values."""
        return asdict(self.about) | {
            "stage": self.key,
            "tokens": self.run.tokens,
            "token_ids": self.run.token_ids,
            "shape": self.panel.values.shape,
            "values": self.panel.values.tolist(),
        }

    def save(self, path: Path, width: int | None = None) -> None:
        """Write a file in the format of its ending; .npz and .safetensors hold the whole run.

        ``width`` is a picture's, in pixels. Raises ``ExportError`` if this machine can't draw
        pictures or write the file, and for a width without room.
        """
        kind = path.suffix.removeprefix(".").lower()
        if kind in TRACE_KINDS:
            export.save_trace(self.run, path)
        elif kind in TABLE_KINDS:
            export.save_table(self.table, path, self.about)
        elif kind == "json":
            written = json.dumps(options.nonfinite_as_none(self.document), ensure_ascii=False)
            files.save(path, f"{written}\n".encode())
        elif kind == "html":
            title = self.panel.title
            export.save_page(
                path, [(title, self.picture)], self.about, [("Its numbers", self.table)]
            )
        else:
            export.save_figure(self.picture, path, self.about, width=width)


def choose(run: Trace, name: str, layer: int | None = None, head: int | None = None) -> Tensor:
    """Choose a stage of a run by our name, or by TransformerLens', which names the layer too.

    Layer and head are 0 where the stage has them and none are given. Raises ``click.UsageError``
    for an unknown stage or one that the run doesn't keep, for a layer or head of a stage that
    belongs to none, and for two layers; ``PlaceError`` for one that the model doesn't have.
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
    layer, head = named or layer or 0, head or 0
    run.stage("q", layer, head)  # for its errors
    return Tensor(run, key, layer if stage.per_layer else None, head if stage.of_head else None)


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
