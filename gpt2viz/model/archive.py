"""Offsets of the members of a zip archive, such as those that PyTorch and NumPy write.

Neither compresses by itself. A compressed member can be a thousand times as large as its file, and
members that share their bytes together as well: both are refused.
"""

from __future__ import annotations

import os
import zipfile
from typing import BinaryIO, NamedTuple

#: What every member's own header begins with, and how long it is without name and extra field.
SIGNATURE, _HEADER = b"PK\x03\x04", 30
# The table of contents: PyTorch's takes some hundred bytes a tensor.
_LARGEST_TABLE = 4_000_000


class Member(NamedTuple):
    """The bytes of one member: ``nbytes`` from ``start`` of the file."""

    start: int
    nbytes: int


class _Bounded:
    """A file for ``zipfile`` that refuses to read more than a table of contents at once."""

    def __init__(self, opened: BinaryIO) -> None:
        self.seek, self.tell, self._opened = opened.seek, opened.tell, opened

    def read(self, size: int = -1) -> bytes:
        content = self._opened.read(min(size, _LARGEST_TABLE + 1) if size >= 0 else -1)
        if len(content) > _LARGEST_TABLE:
            raise ValueError("its table of contents is too long")
        return content


def members(opened: BinaryIO) -> dict[str, Member]:
    """The members of an archive by their names; nothing of them is read.

    Raises ``ValueError`` for one that is compressed, encrypted or not within the file, and what
    ``zipfile`` raises for what is no archive.
    """
    size = os.fstat(opened.fileno()).st_size
    with zipfile.ZipFile(_Bounded(opened)) as archive:
        infos = archive.infolist()
    if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in infos):
        raise ValueError("it has compressed members, which no such file has")
    if sum(info.file_size for info in infos) > size:
        raise ValueError("its members are larger than the file")
    return {info.filename: _member(opened, info, size) for info in infos}


def _member(opened: BinaryIO, info: zipfile.ZipInfo, size: int) -> Member:
    """Behind its own header, whose name and extra field have lengths of their own."""
    opened.seek(info.header_offset)
    header = opened.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(SIGNATURE):
        raise ValueError(f"{info.filename:.80} isn't where the table of contents has it")
    start = (
        info.header_offset
        + _HEADER
        + sum(int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    )
    if start + info.file_size > size:
        raise ValueError(f"it ends within {info.filename:.80}")
    return Member(start, info.file_size)
