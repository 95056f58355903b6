"""The texts of a survey, read as a stream, in shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpt2viz.survey.corpus import Corpus

#: A shard is closed when its documents have this many characters: what is done is told and kept
#: by shards, so they hold little.
SHARD = 20_000
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
    def ended(self) -> int:
        """How many documents end in it."""
        return len(self.texts) - self.goes_on

    @property
    def cut(self) -> set[int]:
        """The numbers of documents of which other shards have pieces."""
        last = self.first + len(self.texts) - 1
        return ({self.first} if self.part else set()) | ({last} if self.goes_on else set())


def documents(texts: Path | Corpus) -> Iterator[str]:
    """The texts of a corpus that aren't blank, or of the corpus at a path.

    Never more than a few of them are in memory. Raises ``SurveyError`` for what can't be read.
    """
    for text in (texts if isinstance(texts, Corpus) else Corpus(texts)).texts():
        yield from _if_any(text)


def _if_any(text: str) -> Iterator[str]:
    if text := text.strip():
        yield text


def shards(texts: Path | Corpus, size: int = SHARD) -> Iterator[Shard]:
    """The documents in shards of at least ``size`` characters, the last one of what is left.

    The same corpus gives the same shards each time.
    """
    some: list[str] = []
    number = first = length = 0
    for document, text in enumerate(documents(texts)):
        for part, start in enumerate(range(0, len(text), LONGEST)):
            if not some:
                first, before = document, part
            some.append(text[start : start + LONGEST])
            length += len(some[-1])
            goes_on = start + LONGEST < len(text)
            if goes_on or length >= size:
                yield Shard(number, first, tuple(some), before, goes_on)
                number, length, some = number + 1, 0, []
    if some:
        yield Shard(number, first, tuple(some), before)
