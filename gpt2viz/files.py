"""Untrusted files in a folder: only ordinary ones within it, of limited size.

Also our own files, which are written completely or not at all, and scripts joined into one text.
"""

from __future__ import annotations

import json
import os
import re
import stat
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpt2viz.errors import CheckpointError, ExportError, GPT2VizError
from gpt2viz.labels import escape_controls, shorten

#: The size limit of a checkpoint's text files: Llama 3's tokenizer.json has 17 MB with each merge
#: on lines of its own. Parsed, 20 MB of JSON take up to 600 MB of memory …
LARGEST_TEXT = 20_000_000
#: … and some seconds if nearly all of it is brackets; a vocabulary has one per merge.
MOST_BRACKETS = 1_000_000
#: The folders with scripts, styles and HTML of pages that make no request.
_ASSETS = ("app/scripts", "notebook", "export")
#: The elements that a script draws in, and comments on their own lines.
_ELEMENTS = re.compile(r"^export const html = [`'](.*?)[`']$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^ *(//.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE)
#: A script's import of another one.
_IMPORT = re.compile(r'^import \{[^}]+\} from "\.[./\w]*/(\w+\.js)"$', re.MULTILINE)
# Escape sequences that colour a terminal's text, as torch puts into its messages (ECMA-48).
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# The longest reason, and the longest path, in a message.
_LONGEST_REASON, _LONGEST_NAME = 200, 300
_STEP = re.compile(r"step-(\d{1,12})(?:\.safetensors)?|checkpoint-(\d{1,12})")


def is_there(path: Path) -> bool:
    """True if a file of that name exists; a dangling link counts."""
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError):  # a name that no file can have
        return False


def is_folder(path: Path) -> bool:
    """True if it is a folder; False for a name that no file can have."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_gguf(path: Path) -> bool:
    """True if its name is a GGUF file's: a whole model in one file."""
    return path.suffix.lower() == ".gguf" and not is_folder(path)


def steps_in(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a training run in a folder, in order of their steps.

    Folders named ``step-N`` or ``checkpoint-N`` with a ``config.json``, and files
    ``step-N.safetensors``. Empty if the folder can't be read.
    """
    try:
        entries = [(_STEP.fullmatch(path.name), path) for path in folder.iterdir()]
    except (OSError, ValueError):
        return []
    steps = [(int(match[1] or match[2]), path) for match, path in entries if match]
    return sorted(
        (step, path)
        for step, path in steps
        if path.suffix == ".safetensors" or is_there(path / "config.json")
    )


@contextmanager
def reading(
    name: object, problem: str, kind: type[GPT2VizError] = CheckpointError
) -> Iterator[None]:
    """Read an untrusted file in the block: any failure becomes one sentence.

    Each error that isn't this package's becomes one of ``kind``, "name: problem (why)": a damaged
    file can make a library raise anything, and exhaust memory or stack too.
    """
    try:
        yield
    except GPT2VizError:
        raise
    except Exception as error:
        shown = shorten(str(name), _LONGEST_NAME)
        raise kind(f"{shown}: {problem} ({reason(error)})") from None


def reason(error: Exception) -> str:
    """The reason for a failure, for use in a sentence: the first line of an error's own message,
    without terminal codes, cut between two words if it is long.
    """
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = escape_controls(_COLOUR.sub("", text).strip().partition("\n")[0])
    line = f"it has no {line}" if isinstance(error, KeyError) else line
    short = textwrap.shorten(line, _LONGEST_REASON, placeholder=" …")
    return (line[:_LONGEST_REASON] if short == "…" else short) or type(error).__name__


def ordinary(path: Path) -> Path:
    """Return the path if it is an ordinary file, not a pipe, device or folder: opening those
    can block forever. Raises ``OSError`` or ``ValueError``, for ``reading``.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("not an ordinary file")
    return path


def own_file(path: Path) -> Path:
    """Return the path if it is an ordinary file and no link leads out of its folder.

    A folder of the hub's cache may link to its model's own ``blobs``. Raises ``CheckpointError``,
    which names the file, for anything else.
    """
    home, target = Path(os.path.realpath(path.parent)), Path(os.path.realpath(path))
    homes = [home]
    if home.parent.name == "snapshots":
        homes.append(home.parents[1] / "blobs")
    if not any(target.is_relative_to(home) for home in homes):
        raise CheckpointError(
            f"{path.name}: a link that leads out of its folder; put the file itself there"
        )
    if not target.is_file():
        raise CheckpointError(f"{path.name}: not an ordinary file")
    return path


def read_text(path: Path, errors: str = "strict") -> str:
    """Read a text file in UTF-8, without the byte-order mark that some editors put first.

    Raises ``CheckpointError``, which names the file, if it can't be read.
    """
    with reading(path.name, "can't be read"):
        with own_file(path).open("rb") as file:
            content = file.read(LARGEST_TEXT + 1)
        if len(content) > LARGEST_TEXT:
            raise ValueError(f"more than {LARGEST_TEXT // 10**6} MB")
        return content.decode("utf-8-sig", errors).replace("\r\n", "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises ``CheckpointError``, which names the file, if it has none."""
    values: dict[str, Any] = _parse(path, dict, "object")
    return values


def read_list(path: Path) -> list[Any]:
    """Read a JSON list. Raises ``CheckpointError``, which names the file, if it has none."""
    values: list[Any] = _parse(path, list, "list")
    return values


def _parse(path: Path, kind: type, name: str) -> Any:
    text = read_text(path)
    with reading(path.name, "can't be read"):
        if text.count("[") + text.count("{") > MOST_BRACKETS:
            raise ValueError(f"more than {MOST_BRACKETS:,} brackets")
        values = json.loads(text)
    if not isinstance(values, kind):
        raise CheckpointError(f"{path.name}: a JSON {name} is expected")
    return values


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path to write to, which then replaces ``path`` atomically; a kill leaves the old file."""
    with TemporaryDirectory(".partial", ".gpt2viz-", path.parent) as folder:
        yield (partial := Path(folder) / path.name)
        partial.replace(path)


def save(path: Path, content: bytes) -> None:
    """Write a file atomically: an old one stays until the new one is complete.

    A link is followed; a pipe or a device is written to directly. Raises ``ExportError``, which
    names the file, if it can't be written, as on a full disk.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        with whole(target) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise ExportError(f"{path}: can't be written ({error.strerror or error})") from None


def asset(name: str) -> str:
    """Read a script, a style or a page's HTML of this package."""
    here = resources.files("gpt2viz")
    (file,) = (file for folder in _ASSETS if (file := here / folder / name).is_file())
    return file.read_text(encoding="utf-8")


def elements(script: str) -> str:
    """The HTML that a script draws in."""
    html: list[str] = _ELEMENTS.findall(asset(f"{script}.js"))
    return html[0]


def scripts(names: Mapping[str, str], start: str) -> str:
    """Join scripts for a page that makes no request: a constant each, and then the line ``start``.

    Each constant is the script's default export, under its name in ``names``.
    """
    code = "".join(
        f"const {name} = (function () {{\n{script(file)}\n}})()\n" for name, file in names.items()
    )
    return f'\n"use strict"\n{code}{start}\n'


def script(name: str) -> str:
    """Rewrite a script as a function's body that returns its default export.

    Scripts that it imports are inlined, each once, and comments are removed.
    """
    written: set[str] = set()

    def write(imported: re.Match[str]) -> str:
        file = imported[1]
        if file in written:
            return ""
        written.add(file)
        return _IMPORT.sub(write, asset(file).replace("export default ", "export "))

    code = _COMMENT.sub("", _IMPORT.sub(write, asset(f"{name}.js")))
    return re.sub(r"^export (default )?", lambda m: "return " if m[1] else "", code, flags=re.M)
