"""``gpt2viz heads`` and ``changes``: every head of one model, or of two, over many texts."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gpt2viz.analysis.batch_scores import HABITS, emergence
from gpt2viz.analysis.model_changes import MEASURES
from gpt2viz.analysis.restored import Restored
from gpt2viz.analysis.scores import SCORES
from gpt2viz.cli import options
from gpt2viz.extras import require
from gpt2viz.labels import escape_controls, sentence
from gpt2viz.model import model_registry
from gpt2viz.survey.changes import Changes, change_rows, compare_models
from gpt2viz.survey.documents import FIELD, Corpus
from gpt2viz.survey.engines import Engine, local, on_ray
from gpt2viz.survey.run import survey, survey_steps, table_writer
from gpt2viz.survey.stored import HEADS, STEPS

if TYPE_CHECKING:
    import pandas as pd


class _Work(NamedTuple):
    """Texts to read, and how: results go to a ``folder``, ``tell`` gets the progress."""

    texts: Corpus
    folder: Path
    n_tokens: int
    device: str
    engine: Engine
    tell: Callable[[int, int], None]


@contextmanager
def _reading(
    doing: str,
    *,
    corpus: Path,
    field: str | None,
    out: Path | None,
    tokens: int,
    workers: int,
    device: str,
    engine: str,
    address: str | None,
    quiet: bool,
) -> Iterator[_Work]:
    """The work of a command, from its options.

    A warning becomes a note. A folder that can't be written, as on a full disk, ends the command in
    one line.
    """
    if address and engine != "ray":
        raise click.UsageError("--address is of a Ray cluster: add --engine ray")
    where = on_ray(workers, address) if engine == "ray" else local(workers)
    with require("A survey", "survey"):
        import_module("pandas")
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = out or temporary
        texts = Corpus(_spool_stdin(temporary, field) if str(corpus) == "-" else corpus, field)
        progress = stack.enter_context(_Progress(quiet, doing))
        stack.enter_context(warnings.catch_warnings(action="always", category=UserWarning))
        warnings.showwarning = lambda message, *_rest: options.note(quiet, str(message))
        try:
            yield _Work(texts, folder, tokens, device, where, progress)
        except OSError as error:
            raise click.ClickException(f"{folder}: can't be written ({error})") from None
    options.note(quiet or not out, f"Tables in {out}")


_Read = Callable[[str], AbstractContextManager[_Work]]
#: Adds the options of commands that read many texts; the command gets them as ``read``.
_reads_a_corpus = options.binds(
    "read",
    _reading,
    click.option(
        "-c",
        "--corpus",
        required=True,
        type=click.Path(exists=True, allow_dash=True, path_type=Path),
        help="Texts: .txt with one document per line, .jsonl, .parquet, a folder of these, "
        "or - for stdin.",
    ),
    click.option("--field", help=f"The text's field in .jsonl and .parquet.  [default: {FIELD}]"),
    click.option("--tokens", type=int, default=64, show_default=True, help="Tokens in a passage."),
    click.option(
        "--workers", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True
    ),
    options.device,
    click.option(
        "-o",
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Keep tables and progress here; the app shows those of `heads` in MODEL/survey.",
    ),
    click.option(
        "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True
    ),
    click.option("--address", help="A Ray cluster's address; without it Ray starts a local one."),
    options.as_json,
    options.quiet,
)


@click.command()
@options.model
@click.option(
    "--top", type=click.IntRange(1), default=3, show_default=True, help="Heads to list per score."
)
@click.option(
    "--steps",
    is_flag=True,
    help="Score every checkpoint of the model's training into steps.csv. Prints the last one's "
    "heads, and the first step at which each had half of its final mean (born).",
)
@click.option(
    "--about", default="", help="A description of the texts, for readers of the results in the app."
)
@_reads_a_corpus
def heads(
    read: _Read, model: str, out: Path | None, top: int, steps: bool, about: str, as_json: bool
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
    if about and out is None:
        raise click.UsageError("--about goes with the tables: add --out")
    score, table = (survey_steps, STEPS) if steps else (survey, HEADS)
    with read("Scoring") as work:
        checkpoint = model_registry.find(model)[1]
        how = work.n_tokens, work.device, work.engine
        score(work.texts, checkpoint, work.folder, *how, about, work.tell)
        _print(work.folder / f"{table}.csv", top, as_json)


@click.command()
@click.argument("before")
@click.argument("after")
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="Heads to list.")
@click.option(
    "--restore",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Put heads and MLPs of BEFORE back until this share of the change in the answers is "
    "undone, such as 0.95.",
)
@_reads_a_corpus
def changes(
    read: _Read,
    before: str,
    after: str,
    top: int,
    restore: float | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Find the heads that do something else in AFTER than in BEFORE.

    Both are checkpoints of one model, such as before and after fine-tuning:
    names, folders, or NAME@STEP for a checkpoint of a training. Says first what
    is bit for bit the same. Then lists the heads by how far their own output
    moved, with a 95 % confidence interval over documents and what rounding
    alone would give; of those that are marked as changed, at most 5 % are
    expected to be so by chance.

    With --out, a stopped run continues when the command is repeated.

    \b
        gpt2viz changes gpt2 my-gpt2 --corpus books.txt
        gpt2viz changes gpt2 my-gpt2 --corpus books.txt --restore 0.95
        gpt2viz changes stories@1500 stories --corpus books.txt --json
    """
    with read("Comparing") as work:
        pair = [_checkpoint(name) for name in (before, after)]
        result = compare_models(
            pair[0], pair[1], work.texts, n_tokens=work.n_tokens, device=work.device,
            out=work.folder, engine=work.engine, progress=work.tell,
        )  # fmt: skip
        table_writer().write(change_rows(result), work.folder)
    undone = None if restore is None else _restore(result, restore, quiet)
    if as_json:
        options.print_json(_document(result, undone))
    else:
        _print_changes(result, undone, top)


def _restore(result: Changes, share: float, quiet: bool) -> Restored:
    with options.bar(quiet, "Putting pieces back", 100) as draw:
        return result.restore(share, lambda _, done: draw(int(100 * done)))


def _document(result: Changes, undone: Restored | None) -> dict[str, Any]:
    """The comparison for JSON: its tables, and the pieces that were restored."""
    document = {"words": result.words(), "loss": result.loss, **change_rows(result)}
    if undone is not None:
        document["restored"] = {"pieces": undone.names, "undone": undone.undone.tolist()}
    return document


def _checkpoint(name: str) -> tuple[Path, int | None]:
    """A model's folder, and the step of its training if the name ends in @STEP."""
    model, _, step = name.rpartition("@")
    at = (model, int(step)) if model and step.isdecimal() else (name, None)
    return model_registry.find(at[0])[1], at[1]


def _print_changes(result: Changes, undone: Restored | None, top: int) -> None:
    click.echo(escape_controls(result.words()))
    (before, _), (after, _) = result.loss.values()
    click.echo(sentence("changes.losses", before=before, after=after))
    names = ("head", "changed", *MEASURES, "95 %", "rounding")
    rows: list[tuple[str, ...]] = [names]
    for head in result.heads[:top]:
        own = head.moved["own output"]
        distances = (f"{head.moved[name].mean:.4f}" for name in MEASURES)
        interval = "-" if math.isnan(own.low) else f"{own.low:.4f} to {own.high:.4f}"
        mark = "yes" if head.changed else ""
        rows.append((head.name, mark, *distances, interval, f"{own.rounding:.4f}"))
    click.echo(f"\n{options.align(rows)}")
    for text in result.texts_of(*result.heads[0][:2])[:1]:
        name, token = result.heads[0].name, text.tokens[text.query]
        words = sentence("changes.text", head=name, text=text.text, token=token)
        click.echo(f"\n{escape_controls(words)}")
    if undone is not None:
        click.echo(f"\n{undone.words()}")


def _print(table: Path, top: int, as_json: bool) -> None:
    import pandas as pd

    scores = pd.read_csv(table)
    if as_json:
        options.print_json(scores.to_dict("records"))
    else:
        best = _last_with_emergence(scores, top) if "step" in scores else _highest(scores, top)
        click.echo(best.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.3f}"))


class _Progress(ExitStack):
    """A bar that starts at the first call, which has the total."""

    def __init__(self, quiet: bool, doing: str) -> None:
        super().__init__()
        self.quiet, self.doing = quiet, doing
        self.tell: Callable[[int], None] | None = None

    def __call__(self, done: int, of: int) -> None:
        if self.tell is None:
            self.tell = self.enter_context(options.bar(self.quiet, self.doing, of, done))
        self.tell(done)


def _spool_stdin(folder: Path, field: str | None) -> Path:
    """Write all of stdin to a file, as a survey reads it twice; JSON lines with a ``field``."""
    path = folder / ("stdin.jsonl" if field else "stdin.txt")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _last_with_emergence(scores: pd.DataFrame, top: int) -> pd.DataFrame:
    """The last checkpoint's heads with the highest means, and the step by which each was born."""
    means = scores.pivot(index="step", columns=["score", "layer", "head"], values="mean")
    best = _highest(scores[scores["step"] == means.index[-1]], top).drop(columns="step")
    # Of equal checkpoints all but one have a wrong number: see ``Steps.dated``.
    dated = means[~means.duplicated(keep=False) | (means.index == means.index[-1])]
    best["born"] = [_emergence(dated[row.score, row.layer, row.head]) for row in best.itertuples()]
    return best


def _emergence(means: pd.Series) -> str:
    """The step by which a head was born, from its means by step; "-" if there is none."""
    point = emergence(means.to_numpy()).point if means.name[0] in HABITS else None
    return "-" if point is None else f"{means.index[point]:,}"


def _highest(scores: pd.DataFrame, top: int) -> pd.DataFrame:
    """The heads with the highest means, score by score in the order of ``SCORES``."""
    best = scores.sort_values("mean", ascending=False, kind="stable").groupby("score").head(top)
    return best.sort_values("score", key=lambda names: names.map(list(SCORES).index), kind="stable")
