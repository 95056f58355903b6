"""``gpt2viz heads``: what every head does over many texts, by ``gpt2viz.survey``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpt2viz.analysis.batch_scores import HABITS, emergence
from gpt2viz.analysis.scores import SCORES
from gpt2viz.cli import options
from gpt2viz.extras import needed
from gpt2viz.model import model_registry
from gpt2viz.survey.documents import FIELD, Corpus
from gpt2viz.survey.engines import Engine, local, on_ray
from gpt2viz.survey.run import survey, survey_steps
from gpt2viz.survey.stored import HEADS, STEPS

if TYPE_CHECKING:
    import pandas as pd


@click.command()
@click.option(
    "-c",
    "--corpus",
    required=True,
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
    help="Texts: .txt with one document per line, .jsonl, .parquet, a folder of these, or - for "
    "stdin.",
)
@click.option("--field", help=f"The text's field in .jsonl and .parquet.  [default: {FIELD}]")
@options.model
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep tables and progress here; the app shows those in MODEL/survey.",
)
@click.option(
    "--top", type=click.IntRange(1), default=3, show_default=True, help="Heads to list per score."
)
@click.option(
    "--steps",
    is_flag=True,
    help="Score every checkpoint of the model's training into steps.csv. Prints the last one's "
    "heads, and the first step at which each had half of its final mean (born).",
)
@click.option("--tokens", type=int, default=64, show_default=True, help="Tokens in a passage.")
@click.option("--workers", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True)
@options.device
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option("--address", help="A Ray cluster's address; without it Ray starts a local one.")
@click.option(
    "--about", default="", help="A description of the texts, for readers of the results in the app."
)
@options.as_json
@options.quiet
def heads(
    corpus: Path,
    field: str | None,
    model: str,
    out: Path | None,
    top: int,
    steps: bool,
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

    For each score, prints the heads with the highest mean over passages, and
    the 95 % confidence interval of that mean (low, high). Standard errors are
    clustered by document, because passages of one document are alike; fewer
    than five documents give no interval. Paragraphs of one book are not
    documents: give a folder with one file per work, not a line per paragraph.
    Special tokens in the texts are read as ordinary text.

    With --out, a stopped run continues when the command is repeated.

    \b
        gpt2viz heads --corpus books.txt
        gpt2viz heads --corpus books.txt --model gpt2 --out results --top 5
        gpt2viz heads --corpus books.txt --model mine --steps --out births
        gpt2viz heads --corpus posts.jsonl --field body --json > heads.json
        zcat books.gz | gpt2viz heads --corpus -
    """
    where = _engine(engine, workers, address)  # says what is missing before any work is done
    score = survey_steps if steps else survey
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = out or temporary
        texts = Corpus(_spooled(temporary, field) if str(corpus) == "-" else corpus, field)
        try:
            checkpoint = model_registry.find(model)[1]
            with _Progress(quiet) as tell:
                score(texts, checkpoint, folder, tokens, device, where, about, tell)
        except OSError as error:  # a full disk, a folder that may not be written
            raise click.ClickException(f"{folder}: can't be written ({error})") from None
        _print(folder / f"{STEPS if steps else HEADS}.csv", top, as_json)
    options.note(quiet or not out, f"Tables in {out}")


def _engine(name: str, workers: int, address: str | None) -> Engine:
    where = on_ray(workers, address) if name == "ray" else local(workers)
    with needed("gpt2viz heads", "survey"):
        import_module("pandas")
    return where


def _print(table: Path, top: int, as_json: bool) -> None:
    import pandas as pd

    scores = pd.read_csv(table)
    if as_json:
        options.print_json(scores.to_dict("records"))
    else:
        best = _last_with_emergence(scores, top) if "step" in scores else _highest(scores, top)
        click.echo(best.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.3f}"))


class _Progress(ExitStack):
    """A bar that begins when it is first told how much there is."""

    def __init__(self, quiet: bool) -> None:
        super().__init__()
        self.quiet = quiet
        self.tell: Callable[[int], None] | None = None

    def __call__(self, done: int, of: int) -> None:
        if self.tell is None:
            self.tell = self.enter_context(options.bar(self.quiet, "Scoring", of, done))
        self.tell(done)


def _spooled(folder: Path, field: str | None) -> Path:
    """All of stdin in a file, as a survey reads it more than once: JSON lines with a ``field``."""
    path = folder / ("stdin.jsonl" if field else "stdin.txt")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _last_with_emergence(scores: pd.DataFrame, top: int) -> pd.DataFrame:
    """The last checkpoint's heads with the highest means, and the step by which each was born."""
    means = scores.pivot(index="step", columns=["score", "layer", "head"], values="mean")
    best = _highest(scores[scores["step"] == means.index[-1]], top).drop(columns="step")
    # Equal checkpoints stand under a wrong number, all but one of them: see ``Steps.dated``.
    dated = means[~means.duplicated(keep=False) | (means.index == means.index[-1])]
    best["born"] = [_emergence(dated[row.score, row.layer, row.head]) for row in best.itertuples()]
    return best


def _emergence(means: pd.Series) -> str:
    """The step by which a head was born, by its means by step; "-" where there is none."""
    point = emergence(means.to_numpy()).point if means.name[0] in HABITS else None
    return "-" if point is None else f"{means.index[point]:,}"


def _highest(scores: pd.DataFrame, top: int) -> pd.DataFrame:
    """The heads with the highest means, score by score in the order of ``SCORES``."""
    best = scores.sort_values("mean", ascending=False, kind="stable").groupby("score").head(top)
    return best.sort_values("score", key=lambda names: names.map(list(SCORES).index), kind="stable")
