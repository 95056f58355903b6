"""``gpt2viz why``: why a head attends to a token, from what wrote to its query and its key."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import gpt2viz
from gpt2viz import Reason, export
from gpt2viz.cli import options
from gpt2viz.export import PICTURE_KINDS, TABLE_KINDS, about
from gpt2viz.labels import escape_controls
from gpt2viz.pictures.explanation import pair_rows, reason_map

#: Endings of files: the table of all parts as a picture, or as numbers.
KINDS = (*PICTURE_KINDS, "html", *TABLE_KINDS)


@click.command()
@options.runs_a_model
@click.option("-l", "--layer", type=click.IntRange(0), default=0, show_default=True)
@click.option("-H", "--head", type=click.IntRange(0), default=0, show_default=True)
@click.option("--query", type=click.IntRange(0), help="Its position; the last if not given.")
@click.option(
    "--key", type=click.IntRange(0), help="Its position; the one with most weight if not given."
)
@click.option("--raw", is_flag=True, help="Files and JSON hold q·k itself, with the row's mean.")
@options.file_option(KINDS)
def why(
    run: options.Run,
    as_json: bool,
    quiet: bool,
    layer: int,
    head: int,
    query: int | None,
    key: int | None,
    raw: bool,
    out: tuple[Path, ...],
) -> None:
    """Explain why a head looks at a token of TEXT ("-" reads stdin).

    A raw score is a sum over pairs: what a head, an MLP or the embeddings
    wrote to the query, times what another of them wrote to the key. The norm's
    scale is kept as in the run. The pairs that raise this key above the row's
    mean, or lower it, are printed. Tokens count from 0.

    \b
        gpt2viz why "The cat sat on the mat and the cat sat" -l 1 -H 4 --query 8
        gpt2viz why "A crane ate fish" --layer 2 --query 3 --key 0 --json
        gpt2viz why "A crane ate fish" -l 1 --out parts.svg --out parts.csv
    """
    kinds = [options.kind_of(path, KINDS) for path in out]
    if raw and not (out or as_json):
        raise click.UsageError("--raw is for files and JSON: add --out or --json")
    model, trace = run()
    row = gpt2viz.explain_row(model, trace, layer, head, -1 if query is None else query)
    case = gpt2viz.reason(row, int(row.keys[row.weights.argmax()]) if key is None else key)
    picture = reason_map(case, raw=raw)
    for path, kind in zip(out, kinds, strict=True):
        about_run = about(trace, picture.what)
        if kind in TABLE_KINDS:
            export.save_table(picture.table(), path, about_run)
        else:
            export.save_figure(picture, path, about_run)
        options.note(quiet, f"Wrote {path}")
    if as_json:
        options.print_json(_document(case, raw))
    elif not out:
        click.echo(escape_controls("\n".join(case.words())))
        if case.pairs:
            click.echo()
            click.echo(options.format_rows(pair_rows(case)))


def _document(case: Reason, raw: bool) -> dict[str, Any]:
    """The content for JSON: origin, sentences, the leading pairs and the whole table."""
    row = case.row
    table = row.table(case.key) if raw else case.deviation
    return asdict(about(row.trace, "why", row.layer, row.head)) | {
        "tokens": row.trace.tokens,
        "query": row.query,
        "key": case.key,
        "weight": case.weight,
        "score": float(row.scores[row.row_of(case.key)]),
        "raised": case.raised,
        "lowered": case.lowered,
        "rule": None if case.rule is None else {"name": case.rule[0].name, "share": case.rule[1]},
        "words": case.words(),
        "pairs": [asdict(pair) for pair in case.pairs],
        "parts": row.names,
        "compared_with_the_mean": not raw,
        "table": table.tolist(),
    }
