"""``gpt2viz heads``: what every head does over many texts, by ``gpt2viz.survey``."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
import pandas as pd

from gpt2viz import places
from gpt2viz.across import HEADS
from gpt2viz.cli import options
from gpt2viz.heads import SCORES
from gpt2viz.survey.engines import Engine, local, on_ray
from gpt2viz.survey.run import survey


@click.command()
@click.option(
    "-c",
    "--corpus",
    required=True,
    type=click.Path(exists=True, path_type=Path),
    help="A text file with one document a line, or a folder of .txt files.",
)
@options.model
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep tables and progress here; in MODEL/survey the app shows them.",
)
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, help="Heads a score.")
@click.option("--tokens", type=int, default=64, show_default=True, help="Tokens in a passage.")
@click.option("--workers", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True)
@options.device
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option("--address", help="Of a Ray cluster; without it Ray starts a local one.")
@click.option("--about", default="", help="What the texts are, for those who see it in the app.")
@options.as_json
@options.quiet
def heads(
    corpus: Path,
    model: str,
    out: Path | None,
    top: int,
    tokens: int,
    workers: int,
    device: str,
    engine: str,
    address: str | None,
    about: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Score every head on every passage of a corpus.

    Prints, for each score, the heads with the highest mean over passages,
    and the mean's 95 % confidence interval (low, high). Passages of one
    document are alike, so documents are taken as drawn independently, not
    passages: standard errors are clustered by document, with Student's t for
    as many documents as the text is spread over. With fewer than five
    documents there is no interval. Paragraphs of one book are no documents:
    give a folder with a file for each work, not a line for each paragraph.

    Stopped with --out given, the same command goes on where it was.

    \b
        gpt2viz heads --corpus books.txt
        gpt2viz heads --corpus books.txt --model gpt2 --out results --top 5
        gpt2viz heads --corpus books.txt --json > heads.json
    """

    def progress(done: int, of: int) -> None:
        options.note(quiet, f"{done:,} of {of:,} shards are done")

    where = _on_ray(workers, address) if engine == "ray" else local(workers)
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            survey(corpus, places.find(model)[1], folder, tokens, device, where, about, progress)
        except OSError as error:  # a full disk, a folder that may not be written
            raise click.ClickException(f"{folder}: can't be written ({error})") from None
        found = pd.read_csv(folder / f"{HEADS}.csv")
    if as_json:
        options.print_json(found.to_dict("records"))
    else:
        best = _highest(found, top)
        click.echo(best.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.3f}"))
    if out:
        options.note(quiet, f"Tables in {out}")


def _on_ray(workers: int, address: str | None) -> Engine:
    try:
        return on_ray(workers, address)
    except ModuleNotFoundError:
        raise click.ClickException("--engine ray needs Ray: pip install ray") from None


def _highest(found: pd.DataFrame, top: int) -> pd.DataFrame:
    """The heads with the highest means, score by score in the order of ``SCORES``."""
    best = found.sort_values("mean", ascending=False, kind="stable").groupby("score").head(top)
    return best.sort_values("score", key=lambda names: names.map(list(SCORES).index), kind="stable")
