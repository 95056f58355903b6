"""The texts of a survey: a corpus of plain text, JSON lines or Parquet, read in shards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpt2viz.errors import SurveyError
from gpt2viz.extras import require
from gpt2viz.model.fingerprint import sha256_of

#: The field of a row of JSON or Parquet with its text, unless another is named.
FIELD = "text"
_PLAIN, _ROWS = (".txt", ".text", ""), (".jsonl", ".ndjson", ".parquet")
_KINDS = (
    "a corpus is .txt with one document per line, .jsonl or .parquet with one per row, or a "
    "folder of these, where each .txt is one document; on the command line - is stdin"
)


@dataclass(frozen=True)
class Corpus:
    """A file or a folder; ``field`` names the text in a row of JSON or Parquet."""

    path: Path
    field: str | None = None

    @property
    def files(self) -> list[Path]:
        """Its files, in order. Raises ``SurveyError`` if it can't be read as a corpus."""
        if self.path.is_dir():
            every = (path for path in self.path.rglob("*.*") if not path.is_dir())
            files = sorted(path for path in every if path.suffix.lower() in (".txt", *_ROWS))
        else:
            files = [self.path]
        for path in files:
            if path.exists() and not path.is_file():
                raise SurveyError(f"{path} isn't an ordinary file; on the command line - is stdin")
            if path.suffix.lower() not in (*_PLAIN, *_ROWS):
                raise SurveyError(f"{path} can't be read: {_KINDS}")
        return files

    @property
    def record(self) -> dict[str, str]:
        """Its identity: the files' checksum, and the field with the text, if they have fields."""
        rows = any(path.suffix.lower() in _ROWS for path in self.files)
        if self.field and not rows:
            raise SurveyError(f"{self.path} has no field {self.field!r:.40}: it is plain text.")
        return {"texts": sha256_of(*self.files)} | ({"field": self.field or FIELD} if rows else {})

    def texts(self) -> Iterator[str]:
        """Yield its documents; a long file is read as needed.

        Raises ``SurveyError``, which names the file and the line, if one can't be read.
        """
        for path in self.files:
            try:
                yield from self._texts(path)
            except (OSError, UnicodeDecodeError) as error:
                raise _unreadable(path, error) from error

    def _texts(self, path: Path) -> Iterator[str]:
        kind = path.suffix.lower()
        if kind == ".parquet":
            with require(f"{path.name}, which is Parquet,", "survey"):
                import pyarrow as pa
            try:
                yield from self._column(path)
            except pa.ArrowException as error:
                raise _unreadable(path, error) from error
        elif kind in _ROWS:
            with path.open(encoding="utf-8-sig") as lines:
                for n, line in enumerate(lines, start=1):
                    if line.strip():
                        yield from self._value(_object(line, f"{path}, line {n}"), path, n)
        elif self.path.is_dir():
            yield path.read_text(encoding="utf-8-sig")
        else:
            with path.open(encoding="utf-8-sig") as lines:
                yield from lines

    def _value(self, row: dict[str, Any], path: Path, line: int) -> Iterator[str]:
        self._check_field(list(row), f"{path}, line {line}")
        text = row[self.field or FIELD]
        if text is None:
            return
        if not isinstance(text, str) or any("\ud800" <= char <= "\udfff" for char in text):
            kind = "half of a surrogate pair" if isinstance(text, str) else type(text).__name__
            raise SurveyError(f"{path}, line {line}: {self.field or FIELD!r} is {kind}, no text")
        yield text

    def _column(self, path: Path) -> Iterator[str]:
        import pyarrow as pa
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            self._check_field(file.schema_arrow.names, str(path))
            name = self.field or FIELD
            kind = file.schema_arrow.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise SurveyError(f"{path}: {name!r} is {kind}, no text")
            for batch in file.iter_batches(batch_size=256, columns=[name]):
                yield from (text for text in batch.column(0).to_pylist() if text is not None)

    def _check_field(self, names: list[str], where: str) -> None:
        if (self.field or FIELD) not in names:
            raise SurveyError(
                f"{where}: no field {self.field or FIELD!r}. There are: "
                f"{', '.join(names) or 'none'!s:.200}. Name the field with the text."
            )


def _unreadable(path: Path, error: Exception) -> SurveyError:
    return SurveyError(f"{path}: can't be read: {' '.join(str(error).split()):.300}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SurveyError(f"{where}: no JSON ({error!s:.100})") from None
    if not isinstance(row, dict):
        raise SurveyError(f"{where}: a JSON object is expected")
    return row


#: A shard is closed when its documents have this many characters: progress is reported and stored
#: by shards, so they are small.
SHARD = 20_000
#: A longer document is cut, so that a shard fits in memory whatever the file.
LONGEST = 1_000_000


@dataclass(frozen=True)
class Shard:
    """Consecutive documents: ``first`` is the number of the first, from 0.

    ``part`` pieces of that one came before; ``goes_on`` is True if the last has more pieces.
    """

    number: int
    first: int
    texts: tuple[str, ...]
    part: int = 0
    goes_on: bool = False

    @property
    def ended(self) -> int:
        """The number of documents that end in it."""
        return len(self.texts) - self.goes_on

    @property
    def cut(self) -> set[int]:
        """The numbers of documents with pieces in other shards."""
        last = self.first + len(self.texts) - 1
        return ({self.first} if self.part else set()) | ({last} if self.goes_on else set())


def documents(texts: Path | Corpus) -> Iterator[str]:
    """Yield the texts of a corpus, or of the corpus at a path, that aren't blank.

    Only a few of them are in memory at a time. Raises ``SurveyError`` if one can't be read.
    """
    for raw in (texts if isinstance(texts, Corpus) else Corpus(texts)).texts():
        if text := raw.strip():
            yield text


def shards(texts: Path | Corpus, size: int = SHARD) -> Iterator[Shard]:
    """Group the documents into shards of at least ``size`` characters; the last has the rest.

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
