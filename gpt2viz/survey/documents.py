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
    """Some documents, one after the other: ``first`` is the number of the first, from 0.

    Of that one, ``part`` pieces came before; ``goes_on`` says that pieces of the last are to come.
    """

    number: int
    first: int
    texts: tuple[str, ...]
    part: int = 0
    goes_on: bool = False

    @property
    def cut(self) -> set[int]:
        """The numbers of documents of which other shards have pieces."""
        last = self.first + len(self.texts) - 1
        return ({self.first} if self.part else set()) | ({last} if self.goes_on else set())


def documents(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file that aren't blank, or the ``.txt`` files of a folder by name.

    Never more than one of them is in memory. Raises ``SurveyError`` for what can't be read.
    """
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.txt")):
                yield from _if_any(file.read_text(encoding="utf-8"))
        else:
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    yield from _if_any(line)
    except (OSError, UnicodeDecodeError) as error:
        raise SurveyError(f"{path}: can't be read: {error}") from error


def _if_any(text: str) -> Iterator[str]:
    if text := text.strip():
        yield text


def shards(path: Path, size: int = SHARD) -> Iterator[Shard]:
    """The documents in shards of at least ``size`` characters, the last one of what is left.

    The same file gives the same shards each time.
    """
    texts: list[str] = []
    number = first = length = 0
    for document, text in enumerate(documents(path)):
        for part, start in enumerate(range(0, len(text), LONGEST)):
            if not texts:
                first, before = document, part
            texts.append(text[start : start + LONGEST])
            length += len(texts[-1])
            goes_on = start + LONGEST < len(text)
            if goes_on or length >= size:
                yield Shard(number, first, tuple(texts), before, goes_on)
                number, length, texts = number + 1, 0, []
    if texts:
        yield Shard(number, first, tuple(texts), before)
