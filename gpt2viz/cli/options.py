"""What several commands share: the text, the model, and where words and numbers go."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

import gpt2viz
from gpt2viz import hub, settings
from gpt2viz.errors import CheckpointError, EditError, TextError

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
quiet = click.option("-q", "--quiet", is_flag=True, help="No progress and no notes on stderr.")
model = click.option(
    "-m",
    "--model",
    default=settings.BUNDLED.name,
    show_default=True,
    metavar="NAME|FOLDER",
    help="A name that `gpt2viz models` lists, or a checkpoint folder.",
)
device = click.option(
    "--device", default="cpu", show_default=True, help="Where the model computes: cpu, cuda or mps."
)
#: Runs the model on what the command was given.
Run = Callable[[], gpt2viz.Trace]


def runs_a_model(command: Callable[..., Any]) -> Callable[..., Any]:
    """TEXT and all that decides what the model does with it; the command gets them as ``run``.

    ``run()`` raises ``GPT2VizError`` for a model, text or edit that can't be done.
    """

    @wraps(command)
    def ready(
        text: str,
        model: str,
        no_causal: bool,
        endoftext: bool,
        special: bool,
        edits: str,
        quiet: bool,
        device: str,
        **others: Any,
    ) -> Any:
        run = partial(_run, text, model, not no_causal, endoftext, special, edits, quiet, device)
        return command(run=run, quiet=quiet, **others)

    text = click.argument("text")
    edits = click.option(
        "--edits",
        default="",
        metavar="LIST",
        help="Changes to the run, such as off:1.3,window:2 (head 3 of layer 1 off; …).",
    )
    causal = click.option("--no-causal", is_flag=True, help="Lift the causal mask.")
    first = click.option(
        "--endoftext", is_flag=True, help="Put the token <|endoftext|> first, if the model has it."
    )
    tokens = click.option(
        "--special",
        is_flag=True,
        help="Read special tokens in TEXT, such as <|endoftext|>, as tokens and not as text.",
    )
    for decorate in (quiet, as_json, device, edits, tokens, first, causal, model, text):
        ready = decorate(ready)
    return ready


def note(silent: bool, message: str) -> None:
    """Say something beside the result, on stderr, unless told not to."""
    if not silent:
        click.echo(message, err=True)


def find(name: str) -> tuple[str, Path]:
    """(name, folder) of a model by its name, in the hub's cache too, or by its path.

    Raises ``CheckpointError`` for neither.
    """
    own = settings.by_name(settings.folders())
    if name in own:
        return name, own[name]
    path = settings.expanded(name)
    if path.is_dir():
        return path.resolve().name, path
    known = own | hub.cached()
    if name in known:
        return name, known[name]
    raise CheckpointError(f"no model and no folder {name!r}; there are: {', '.join(known)}")


def _run(
    given: str,
    name: str,
    causal: bool,
    endoftext: bool,
    special: bool,
    edits: str,
    silent: bool,
    device: str,
) -> gpt2viz.Trace:
    """Trace a text; "-" reads it from stdin."""
    try:
        changes = gpt2viz.parse_edits(edits)
    except EditError as error:
        raise click.BadParameter(str(error), param_hint="--edits") from None
    written = _stdin() if given == "-" else given
    name, folder = find(name)
    note(silent, f"Running {name} …")
    loaded = gpt2viz.load_model(folder, name, device)
    ids = loaded.tokenizer.encode(written, end_of_text_first=endoftext, special=special)
    if not special:
        note_special(silent, loaded.tokenizer.special_in(written))
    return gpt2viz.trace(loaded, ids, causal=causal, edits=changes)


def note_special(silent: bool, typed: Iterable[str]) -> None:
    """Say which special tokens were read as ordinary text, if any."""
    if names := ", ".join(typed):
        note(
            silent,
            f"Special tokens in the text are read as ordinary text ({names}); --special reads "
            "them as tokens, as transformers does.",
        )


def print_json(content: Any) -> None:
    """Print JSON that every reader takes: what is no number in JSON (−∞, NaN) becomes null."""
    click.echo(json.dumps(finite(content), ensure_ascii=False, allow_nan=False))


def finite(content: Any) -> Any:
    """The same with None in place of −∞, ∞ and NaN, which JSON has no words for."""
    if isinstance(content, dict):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _stdin() -> str:
    """All of stdin as UTF-8, without the line's end that `echo` adds."""
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise TextError(f"stdin is not UTF-8 (byte {error.start})") from None
