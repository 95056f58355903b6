"""Checksums of files, as ``sha256sum`` gives them."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock


@dataclass(frozen=True)
class WeightFiles:
    """The files that weights were read from, as they were then.

    ``stamps`` are size and time of change of each file.
    """

    files: tuple[Path, ...]
    stamps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, files: Sequence[Path]) -> WeightFiles:
        """Remember files as they are now; nothing of them is read."""
        return cls(tuple(file.absolute() for file in files), tuple(_stamp(file) for file in files))

    def same(self, other: WeightFiles) -> bool:
        """True if both hold the same: the same unchanged files, or files of one checksum."""
        return self == other or self.sha256 == other.sha256 != ""

    def have_changed(self) -> bool:
        """True if a file was changed, replaced or removed."""
        try:
            return tuple(_stamp(file) for file in self.files) != self.stamps
        except OSError:
            return True

    @cached_property
    def sha256(self) -> str:
        """``sha256_of`` the files, read when first asked for: half a second a gigabyte or so.

        Empty where a file was written to since the weights were read from it. One that is gone, or
        has another in its place, is still read: it is held open.
        """
        return self._where_they_were() or self._of_open_files()

    def _where_they_were(self) -> str:
        """The checksum of the files in their places; "" where one is gone or has changed."""
        try:
            return "" if self.have_changed() else sha256_of(*self.files)
        except OSError:
            return ""

    def __post_init__(self) -> None:
        """Hold the files open, until this is no longer needed."""
        opened: list[int] = []
        weakref.finalize(self, _close, opened)
        for file in self.files:
            with suppress(OSError):
                opened.append(os.open(file, os.O_RDONLY | _BINARY | _NEVER_WAIT))
        object.__setattr__(self, "_opened", opened)

    def _of_open_files(self) -> str:
        """The checksum of the files that are held open; "" where one has changed."""
        opened: list[int] = vars(self)["_opened"]
        with _TURN:  # two threads would share a file's offset
            if tuple(_stamp_of(os.fstat(descriptor)) for descriptor in opened) != self.stamps:
                return ""
            names = (file.name for file in self.files)
            return _combined(sorted(zip(names, map(_sha256_of_open, opened), strict=True)))


# Windows' and Unix' own: bytes as they are, and no waiting for who writes into a pipe.
_BINARY, _NEVER_WAIT = getattr(os, "O_BINARY", 0), getattr(os, "O_NONBLOCK", 0)
#: Held while files that are open are read.
_TURN = Lock()


def _close(opened: Sequence[int]) -> None:
    for descriptor in opened:
        os.close(descriptor)


def _stamp(file: Path) -> tuple[int, int]:
    return _stamp_of(file.stat())


def _stamp_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def sha256_of(*files: Path) -> str:
    """SHA-256 of a file in hex; of several, that of what ``sha256sum`` prints for them.

    They are taken in the order of their paths, each under its own name.
    """
    return _combined([(file.name, _sha256(file)) for file in sorted(files)])


def equal_files(files: Mapping[int, Sequence[Path]]) -> tuple[tuple[int, ...], ...]:
    """Groups, of two or more, of the numbers whose files are equal byte by byte.

    Sizes are compared first, then some bytes in the middle, and checksums only if those agree.
    """
    groups = [[number for number, some in files.items() if some]]
    keys: tuple[Callable[[Sequence[Path]], Hashable], ...] = (
        lambda some: tuple(file.stat().st_size for file in some),
        lambda some: b"".join(map(_middle, some)),
        lambda some: sha256_of(*some),
    )
    for key in keys:
        split: list[list[int]] = []
        for group in groups:
            alike: dict[Hashable, list[int]] = {}
            for number in group:
                alike.setdefault(key(files[number]), []).append(number)
            split += [some for some in alike.values() if len(some) > 1]
        groups = split
    return tuple(tuple(group) for group in groups)


def _middle(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(file.stat().st_size // 2)
        return opened.read(4096)


def _combined(digests: Sequence[tuple[str, str]]) -> str:
    """One checksum of several named ones: the only one, or that of their list."""
    if len(digests) == 1:
        return digests[0][1]
    listed = "".join(f"{digest}  {name}\n" for name, digest in digests)
    return hashlib.sha256(listed.encode()).hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _sha256_of_open(number: int) -> str:
    with open(number, "rb", closefd=False) as opened:
        opened.seek(0)
        return hashlib.file_digest(opened, "sha256").hexdigest()
