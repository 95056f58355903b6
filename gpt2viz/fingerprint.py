"""What tells files from all others: their checksum, as ``sha256sum`` gives it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


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
        return cls(tuple(files), tuple(_stamp(file) for file in files))

    @cached_property
    def sha256(self) -> str:
        """``sha256_of`` the files, read when first asked for: half a second a gigabyte or so.

        Empty where a file is gone or has changed since the weights were read from it.
        """
        try:
            if tuple(_stamp(file) for file in self.files) != self.stamps:
                return ""
            return sha256_of(*self.files)
        except OSError:
            return ""


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def sha256_of(*files: Path) -> str:
    """SHA-256 of a file in hex; of several, that of what ``sha256sum`` prints for them.

    They are taken in the order of their paths, each under its own name.
    """
    found = [(_sha256(file), file.name) for file in sorted(files)]
    if len(found) == 1:
        return found[0][0]
    listed = "".join(f"{digest}  {name}\n" for digest, name in found)
    return hashlib.sha256(listed.encode()).hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
