"""The texts of a survey, read as a stream: a file with one document a line, or a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpt2viz.errors import SurveyError

#: A shard is closed when its documents have this many characters.
SHARD = 200_000
#: A longer document is cut, so that a shard fits in memory whatever the file is.
LONGEST = 1_000_000


@dataclass(frozen=True)
class Shard:
    """Some documents, one after the other: ``first`` is the number of the first, from 0."""

    number: int
    first: int
    texts: tuple[str, ...]


def documents(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file that aren't blank, or the ``.txt`` files of a folder by name.

    Never more than one of them is in memory. Raises ``SurveyError`` for what can't be read.
    """
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.txt")):
                yield from _pieces(file.read_text(encoding="utf-8"))
        else:
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    yield from _pieces(line)
    except (OSError, UnicodeDecodeError) as error:
        raise SurveyError(f"{path}: can't be read: {error}") from error


def _pieces(text: str) -> Iterator[str]:
    text = text.strip()
    for start in range(0, len(text), LONGEST):
        yield text[start : start + LONGEST]


def shards(path: Path, size: int = SHARD) -> Iterator[Shard]:
    """The documents in shards of at least ``size`` characters, the last one of what is left.

    The same file gives the same shards each time.
    """
    texts: list[str] = []
    number = first = length = 0
    for text in documents(path):
        texts.append(text)
        length += len(text)
        if length >= size:
            yield Shard(number, first, tuple(texts))
            number, first, length, texts = number + 1, first + len(texts), 0, []
    if texts:
        yield Shard(number, first, tuple(texts))
