"""Tensors of a file that ``torch.save`` wrote, read without running anything that is in it.

Such a file is a zip archive: a pickle that describes tensors, and the bytes of each one's storage.
Before PyTorch 1.6 it was five pickles in a row, then the storages, each behind its length. What
stands beside the tensors, such as an object that holds a program's settings, is read as far as it
has names and plain values. The numbers of a tensor are read when they are asked for.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from gpt2viz.errors import CheckpointError, TooLargeError
from gpt2viz.files import ordinary, reading
from gpt2viz.model.archive import SIGNATURE, Member, members
from gpt2viz.model.inert_pickle import Name, Object, Reference, read_pickle
from gpt2viz.model.memory import free_memory, spell

# A description of GPT-2 XL's tensors and its optimizer's takes half a megabyte.
_LARGEST_PICKLE = 16_000_000
# What the files before PyTorch 1.6 begin with: a pickle of this number, and their format's.
_MAGIC = 0x1950A86A20F9469CFC6C
_FORMAT = 1001
_DTYPES = {
    "torch.FloatStorage": torch.float32,
    "torch.HalfStorage": torch.float16,
    "torch.BFloat16Storage": torch.bfloat16,
    "torch.DoubleStorage": torch.float64,
}
# Numbers of other kinds, which a file before PyTorch 1.6 may have between, and their bytes.
_OTHER_BYTES = {
    "torch.LongStorage": 8,
    "torch.IntStorage": 4,
    "torch.ShortStorage": 2,
    "torch.CharStorage": 1,
    "torch.ByteStorage": 1,
    "torch.BoolStorage": 1,
    "torch.ComplexFloatStorage": 8,
    "torch.ComplexDoubleStorage": 16,
}
_MOST_DIMENSIONS = 16
_REBUILT = ("torch._utils._rebuild_", "torch._tensor._rebuild_")
_TENSORS = ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2")
_PARAMETERS = (
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
)


@dataclass(frozen=True)
class TorchFile:
    """A file's content: ``value`` with ``Object`` for each tensor, and members with storages."""

    file: Path
    value: Any
    storages: Mapping[str, Member]

    def tensors(self, described: Mapping[str, Any]) -> dict[str, Tensor]:
        """The tensors that some objects of ``value`` describe, each in memory of its own.

        Raises ``CheckpointError`` naming the first that isn't a dense table of floats, or has not
        all its numbers in the file, and ``TooLargeError`` where they don't fit the memory;
        nothing is read then.
        """
        views = {name: self._view(name, value) for name, value in described.items()}
        nbytes = sum(view.nbytes for view in views.values())
        with reading(self.file, "can't be read"), self.file.open("rb") as opened:
            size = self.file.stat().st_size
            if nbytes > 2 * size:  # tied ones may share a storage
                raise ValueError("its tensors have more numbers than the file")
            if 2 * nbytes > (free := free_memory()):
                raise TooLargeError(
                    f"{self.file}: its weights need {spell(2 * nbytes)} of memory to be converted; "
                    f"{spell(free)} is free"
                )
            return {name: view.read(opened) for name, view in views.items()}

    def _view(self, name: str, value: Any) -> _View:
        if not name.isprintable():
            raise CheckpointError(f"{self.file}: {name!r:.100} isn't a tensor's name")
        with reading(self.file, f"{name:.100} isn't a tensor that can be read"):
            view = _described(value, self.storages)
        if view is None:
            raise CheckpointError(f"{self.file}: {name:.100} isn't a plain table of numbers")
        if view.last > view.stored or math.prod(view.size) > view.stored:
            raise CheckpointError(f"{self.file}: {name:.100} has fewer numbers than its size says")
        return view


@dataclass(frozen=True)
class _View:
    """A tensor in its storage: of ``stored`` numbers, those that ``size`` and ``strides`` say.

    ``start`` is where the first lies in the file.
    """

    dtype: torch.dtype
    start: int
    stored: int
    size: tuple[int, ...]
    strides: tuple[int, ...]
    negative: bool

    @property
    def last(self) -> int:
        """The count of numbers from the first to the last, both included."""
        if 0 in self.size:
            return 0
        return 1 + sum((n - 1) * step for n, step in zip(self.size, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last number."""
        return self.last * self.dtype.itemsize

    def read(self, opened: BinaryIO) -> Tensor:
        """Its numbers."""
        content = torch.empty(self.nbytes, dtype=torch.uint8)
        opened.seek(self.start)
        if opened.readinto(content.numpy()) != self.nbytes:  # type: ignore[attr-defined]
            raise ValueError("it ends within a tensor")
        tensor = content.view(self.dtype).as_strided(self.size, self.strides)
        return -tensor if self.negative else tensor


def is_tensor(value: Any) -> bool:
    """True if a value of a pickle describes a tensor of any kind, a sparse one too."""
    return isinstance(value, Object) and value.called.startswith(_REBUILT)


def read_torch_file(file: Path) -> TorchFile:
    """The content of a file of ``torch.save``; no tensor is read yet.

    Raises ``CheckpointError`` naming the file where it is none of these.
    """
    with reading(file, "not weights that torch.save wrote"), ordinary(file).open("rb") as opened:
        zipped = opened.read(len(SIGNATURE)) == SIGNATURE
        return (_of_archive if zipped else _of_pickles)(file, opened)


def _of_archive(file: Path, opened: BinaryIO) -> TorchFile:
    there = members(opened)
    described = [name for name in there if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(described) != 1:
        raise ValueError("an archive without a data.pkl")
    home = described[0].removesuffix("data.pkl")
    order = there.get(f"{home}byteorder")
    if order and _content(opened, order) != b"little":
        raise ValueError("it was saved on a machine with another order of bytes")
    value = read_pickle(io.BytesIO(_content(opened, there[described[0]])))
    data = f"{home}data/"
    storages = {name.removeprefix(data): at for name, at in there.items() if name.startswith(data)}
    return TorchFile(file, value, storages)


def _content(opened: BinaryIO, member: Member) -> bytes:
    if member.nbytes > _LARGEST_PICKLE:
        raise ValueError(f"a description of {spell(member.nbytes)}")
    opened.seek(member.start)
    return opened.read(member.nbytes)


def _of_pickles(file: Path, opened: BinaryIO) -> TorchFile:
    opened.seek(0)
    begins = opened.read(_LARGEST_PICKLE)
    pickles = io.BytesIO(begins)
    if not begins.startswith(b"\x80") or read_pickle(pickles) != _MAGIC:
        raise ValueError("it begins as no such file does")
    if read_pickle(pickles) != _FORMAT:
        raise ValueError("another version of the format")
    references: list[Reference] = []
    machine, value, keys = (read_pickle(pickles, references) for _ in range(3))
    if not (isinstance(machine, dict) and machine.get("little_endian")):
        raise ValueError("it was saved on a machine with another order of bytes")
    widths = {key: width for key, width in map(_width, references) if isinstance(key, str)}
    start, storages = pickles.tell(), {}
    for key in keys:
        if not isinstance(key, str):
            raise ValueError("a storage without a name")
        opened.seek(start)
        count = int.from_bytes(opened.read(8), "little")
        storages[key] = Member(start + 8, count * widths[key])
        start = sum(storages[key])
    if start > file.stat().st_size:
        raise ValueError("it ends within a tensor")
    return TorchFile(file, value, storages)


def _width(reference: Reference) -> tuple[Any, int]:
    """The key of a storage, and the bytes of one of its numbers."""
    _, kind, key, *_ = reference.to
    width = _DTYPES[kind.text].itemsize if kind.text in _DTYPES else _OTHER_BYTES[kind.text]
    return key, width


def _unwrapped(value: Any) -> Any:
    """The tensor of a parameter."""
    while isinstance(value, Object) and value.called in _PARAMETERS:
        value = value.arguments[0]
    return value


def _described(value: Any, storages: Mapping[str, Member]) -> _View | None:
    """A dense tensor of floats as a view of its storage; None for any other kind."""
    value = _unwrapped(value)
    if not (isinstance(value, Object) and value.called in _TENSORS):
        return None
    reference, offset, size, strides, *more = value.arguments
    _, kind, key, _, _, *parts = reference.to
    dtype = _DTYPES.get(kind.text if isinstance(kind, Name) else "")
    if dtype is None or any(part is not None for part in parts):
        return None
    if not isinstance(key, str) or not _are_counts(offset, *size, *strides):
        raise ValueError("its place or its size is no number")
    if not len(size) == len(strides) <= _MOST_DIMENSIONS:
        raise ValueError(f"{len(size)} dimensions, and {len(strides)} strides")
    storage = storages[key]
    options = more[2] if len(more) > 2 else None
    return _View(
        dtype,
        storage.start + offset * dtype.itemsize,
        storage.nbytes // dtype.itemsize - offset,
        tuple(size),
        tuple(strides),
        isinstance(options, dict) and bool(options.get("neg")),
    )


def _are_counts(*values: Any) -> bool:
    return all(type(n) is int and 0 <= n < 2**63 for n in values)
