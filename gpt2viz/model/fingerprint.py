"""Checksums of files, as ``sha256sum`` gives them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class WeightFiles:
    """The files that weights were read from, with their state at that time.

    ``stamps`` are each file's size and modification time.
    """

    files: tuple[Path, ...]
    stamps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, files: Sequence[Path]) -> WeightFiles:
        """Record the state of files; their content isn't read."""
        return cls(tuple(file.absolute() for file in files), tuple(_stamp(file) for file in files))

    def is_same(self, other: WeightFiles) -> bool:
        """True if both have the same content: the same unchanged files, or the same checksum."""
        return self == other or self.sha256 == other.sha256 != ""

    def have_changed(self) -> bool:
        """True if a file was changed, replaced or removed."""
        try:
            return tuple(_stamp(file) for file in self.files) != self.stamps
        except OSError:
            return True

    @cached_property
    def sha256(self) -> str:
        """``sha256_of`` the files, computed on first access: about half a second per gigabyte.

        Empty if one has changed or was deleted since the weights were read from it.
        """
        try:
            return "" if self.have_changed() else sha256_of(*self.files)
        except OSError:
            return ""


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def sha256_of(*files: Path) -> str:
    """SHA-256 of a file in hex; of several, that of ``sha256sum``'s output for them.

    They are sorted by their paths, each under its own name.
    """
    digests = [(file.name, _sha256(file)) for file in sorted(files)]
    if len(digests) == 1:
        return digests[0][1]
    listed = "".join(f"{digest}  {name}\n" for name, digest in digests)
    return hashlib.sha256(listed.encode()).hexdigest()


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


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
