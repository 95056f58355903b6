"""Options that several commands share: the text, the model, files; and output of numbers."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Any

import click

import gpt2viz
from gpt2viz import settings
from gpt2viz.errors import EditError, ExportError, GPT2VizError, TextError
from gpt2viz.export import pixels
from gpt2viz.export.numbers import check_installed
from gpt2viz.labels import escape_controls, sentence
from gpt2viz.model import model_registry

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
quiet = click.option("-q", "--quiet", is_flag=True, help="No progress and no notes on stderr.")
model = click.option(
    "-m",
    "--model",
    default=settings.BUNDLED.name,
    show_default=True,
    metavar="NAME|FOLDER",
    help="A name that `gpt2viz models` lists, a checkpoint folder or a GGUF file.",
)
position = click.option(
    "--position", type=int, default=-1, show_default=True, help="The token to read at."
)
device = click.option(
    "--device", default="cpu", show_default=True, help="Where the model computes: cpu, cuda or mps."
)


no_causal = click.option("--no-causal", is_flag=True, help="Switch the causal mask off.")
_bos = click.option(
    "--bos/--no-bos",
    default=None,
    help="Put the token that may begin a text first, such as <|endoftext|> or <s>, or leave it "
    "out; by default as the model's own tokenizer does.",
)
_special = click.option(
    "--special",
    is_flag=True,
    help="Read special tokens in TEXT, such as <|endoftext|>, as tokens, not as text.",
)


#: The room of a bar's brackets, its share, and the remaining time.
_BESIDE = 24

#: Runs the model on the command's input: returns the model and its trace.
Run = Callable[[], tuple[gpt2viz.Model, gpt2viz.Trace]]
#: Reads the command's input: returns the model, the text's ids, and the function that encodes.
Read = Callable[[], tuple[gpt2viz.Model, list[int], Callable[[str], list[int]]]]

_edits = click.option(
    "--edits",
    default="",
    metavar="LIST",
    help="Changes to the run, such as off:1.3,window:2 (head 3 of layer 1 off; …).",
)
_patch_from = click.option(
    "--patch-from",
    metavar="TEXT",
    help="The second text, from which patches in --edits are taken, such as "
    "patch:residual_in:2:5 (the stream before layer 2, at token 5).",
)
_mean_over = click.option(
    "--mean-over",
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Texts, one per line: mean: in --edits uses a head's mean over them, position by "
    "position, instead of its mean over an English text of ours.",
)


def binds(
    name: str, function: Callable[..., Any], *options: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds ``options`` to a command, and gives it a ``function`` bound to them.

    The command gets that function as ``name``, and values of the options that it names itself.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own, bound = signature(command).parameters, signature(function).parameters

        @wraps(command)
        def ready(**given: Any) -> Any:
            call = partial(function, **{key: given[key] for key in given if key in bound})
            return command(**{name: call} | {key: given[key] for key in given if key in own})

        for option in reversed(options):
            ready = option(ready)
        return ready

    return decorate


def note(silent: bool, message: str) -> None:
    """Print a note on stderr, unless ``silent``."""
    if not silent:
        click.echo(escape_controls(message), err=True)


@contextmanager
def bar(silent: bool, label: str, length: int, start: int = 0) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr with the remaining time; yields its update function.

    It begins at ``start``, which the time doesn't count. If stderr isn't a terminal, it prints a
    line for each tenth.
    """
    if silent or start >= length:  # nothing to draw
        yield lambda _now: None
        return
    done = start
    tenths = 10 * start // length
    terminal = sys.stderr.isatty()
    with click.progressbar(
        length=length - start,
        label=label,
        file=sys.stderr,
        show_eta=True,
        hidden=not terminal,
        width=max(1, min(36, shutil.get_terminal_size().columns - len(label) - _BESIDE)),
    ) as drawn:

        def tell(now: int) -> None:
            nonlocal done, tenths
            now = max(now, done)
            drawn.update(now - done)
            done = now
            if not terminal and 10 * now // length > tenths:
                tenths = 10 * now // length
                note(silent, f"{label}: {10 * tenths} %")

        yield tell


def _run(
    *,
    text: str,
    model: str,
    no_causal: bool,
    bos: bool | None,
    special: bool,
    edits: str,
    patch_from: str | None,
    mean_over: Path | None,
    device: str,
    quiet: bool,
) -> tuple[gpt2viz.Model, gpt2viz.Trace]:
    """Load the model and trace a text; "-" reads it from stdin."""
    try:
        changes = gpt2viz.parse_edits(edits)
    except EditError as error:
        raise click.BadParameter(str(error), param_hint="--edits") from None
    takes = {edit.declared.takes for edit in changes}
    if patch_from is not None and "second text" not in takes:
        raise click.UsageError("--patch-from is for a patch: name it with --edits")
    if mean_over and "reference" not in takes:
        raise click.UsageError("--mean-over is for a mean: name it with --edits")
    loaded, ids, encode = _read(
        text=text, model=model, bos=bos, special=special, device=device, quiet=quiet
    )
    second = None if patch_from is None else encode(patch_from)
    reference = read_means(loaded, mean_over, encode)
    return loaded, gpt2viz.trace(
        loaded, ids, not no_causal, edits=changes, reference=reference, patch_from=second
    )


def read_means(
    loaded: gpt2viz.Model, file: Path | None, encode: Callable[[str], list[int]]
) -> gpt2viz.MeanReference | None:
    """Every head's means over the texts of a file; None without a file."""
    if file is None:
        return None
    from gpt2viz.survey.documents import documents  # pyarrow takes a while

    try:
        return gpt2viz.mean_reference(loaded, map(encode, documents(file)))
    except GPT2VizError as error:
        why = str(error).partition("; on the command line")[0]  # which this doesn't
        raise click.BadParameter(why, param_hint="--mean-over") from None


def _read(
    *, text: str, model: str, bos: bool | None, special: bool, device: str, quiet: bool
) -> tuple[gpt2viz.Model, list[int], Callable[[str], list[int]]]:
    """Load the model and encode a text; "-" reads it from stdin."""
    written = _stdin() if text == "-" else text
    name, folder = model_registry.find(model)
    note(quiet, f"Running {name} …")
    loaded = gpt2viz.load_model(folder, name, device)
    if loaded.set_aside:
        heads = f"{', '.join(loaded.set_aside):.200}"
        note(quiet, sentence("command.set_aside", heads=heads))
    if not special and (typed := loaded.tokenizer.special_in(written)):
        note(quiet, sentence("command.special", names=", ".join(typed)))
    first = () if bos is False else loaded.tokenizer.first
    for ids, where in ((first, "before"), (loaded.tokenizer.last, "after")):
        if ids:
            names = escape_controls(loaded.tokenizer.decode(ids))
            note(quiet, sentence("command.around", names=names, where=where))
    encode = partial(loaded.tokenizer.encode, bos=bos, special=special)
    return loaded, encode(written), encode


_text, _how = click.argument("text"), (device, as_json, quiet)
#: Adds TEXT and all options that determine how it is read; the command gets them as ``read``, which
#: raises ``GPT2VizError`` for a model or text that can't be used.
reads_a_text = binds("read", _read, _text, model, _bos, _special, *_how)
_changing = (no_causal, _edits, _patch_from, _mean_over)
#: The same with what determines its run too, which the command gets as ``run``.
runs_a_model = binds("run", _run, _text, model, _bos, _special, *_changing, *_how)


def print_json(content: Any) -> None:
    """Print strict JSON: −∞, ∞ and NaN become null."""
    written = json.dumps(nonfinite_as_none(content), ensure_ascii=False, allow_nan=False)
    click.echo("".join(c if escape_controls(c) == c else json.dumps(c)[1:-1] for c in written))


def nonfinite_as_none(content: Any) -> Any:
    """Replace −∞, ∞ and NaN, which JSON can't express, by None."""
    if isinstance(content, dict):
        return {key: nonfinite_as_none(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [nonfinite_as_none(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _stdin() -> str:
    """Read stdin as UTF-8, without a byte-order mark and the line end that `echo` adds."""
    try:
        written = sys.stdin.buffer.read().decode("utf-8-sig")
        return written.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise TextError(f"stdin is not UTF-8 (byte {error.start})") from None


def format_rows(rows: Sequence[Mapping[str, object]], names: Sequence[str] = ()) -> str:
    """A line of column names and one per row; ``names`` are the columns, by default all.

    Numbers that aren't whole have two decimals, None is blank.
    """
    names = names or list(rows[0])
    return align([names, *([_cell(row[name]) for name in names] for row in rows)])


def align(table: Sequence[Sequence[str]], left: int = 0) -> str:
    """Lines of cells, each column as wide as its widest cell.

    Cells are right-aligned, except in the first ``left`` columns.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def file_option(kinds: Sequence[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option ``--out`` for files of these endings."""
    return click.option(
        "-o",
        "--out",
        multiple=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"Write a file instead of printing; can be repeated. Endings: {' '.join(kinds)}.",
    )


def to_pixels(_context: click.Context, _option: click.Parameter, length: str | None) -> int | None:
    """A length such as 8.5cm in pixels. Raises ``click.BadParameter`` for anything else."""
    try:
        return None if length is None else pixels(length)
    except ExportError as error:
        raise click.BadParameter(str(error)) from None


def kind_of(path: Path, kinds: Sequence[str]) -> str:
    """The ending of a file, checked before any work is done.

    Raises ``click.BadParameter`` if it is none of ``kinds``, or the file's folder doesn't
    exist; ``MissingExtraError`` if the extra that writes such a file isn't installed.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in kinds:
        known = ", ".join(f".{kind}" for kind in kinds)
        raise click.BadParameter(f"{path.name} must end with one of {known}", param_hint="--out")
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}", param_hint="--out")
    check_installed(kind)
    return kind
