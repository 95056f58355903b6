"""``--out``: files, whose endings name their formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from gpt2viz.errors import ExportError
from gpt2viz.export import pixels
from gpt2viz.export.numbers import check_installed


def file_option(kinds: Sequence[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option ``--out`` for files of these endings."""
    return click.option(
        "-o",
        "--out",
        multiple=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"Write a file instead of printing; can be repeated. Endings: {' '.join(kinds)}.",
    )


def in_pixels(_context: click.Context, _option: click.Parameter, length: str | None) -> int | None:
    """A length such as 8.5cm in pixels. Raises ``click.BadParameter`` for anything else."""
    try:
        return None if length is None else pixels(length)
    except ExportError as error:
        raise click.BadParameter(str(error)) from None


def kind_of(path: Path, kinds: Sequence[str]) -> str:
    """The ending of a file, checked before any work is done.

    Raises ``click.BadParameter`` where it is none of ``kinds``, and where the file's folder isn't
    there; ``MissingExtraError`` where such a file can't be written for want of an extra.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in kinds:
        known = ", ".join(f".{kind}" for kind in kinds)
        raise click.BadParameter(f"{path.name} must end with one of {known}", param_hint="--out")
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}", param_hint="--out")
    check_installed(kind)
    return kind
