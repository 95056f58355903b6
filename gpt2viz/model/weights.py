"""The safetensors files of a checkpoint: their headers' declarations, and their numbers.

Only safetensors: a pickle can run code when it is opened. Files are read, not mapped as by the
format's own library: a mapped file crashes the program when another one truncates it
(``cp`` does, before it writes), and a file larger than the memory can't be mapped at all. The
format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from gpt2viz.errors import CheckpointError
from gpt2viz.files import is_gguf, is_there, own_file, read_json, reading
from gpt2viz.model import memory
from gpt2viz.model.other_formats import remedy

# Masks and angles that old files store as if they were weights.
_IGNORED = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
# Prefixes of names from torch.compile, DataParallel and the model itself.
_BEFORE = re.compile(r"^(_orig_mod\.|module\.|transformer\.|model\.)+")
# Names of other tasks' heads in transformers and trl; the trunk below them runs unchanged.
_TASK_HEAD = re.compile(r"(score|classifier|qa_outputs|v_head|multiple_choice_head)\.")
#: The readable types, by their names in a header; narrower formats need scales of their own.
FLOATS = {
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
# Describes some 40,000 tensors. The library reads up to 100 MB, which take ten times as much.
_LARGEST_HEADER = 4_000_000
# With larger weights, products and sums could overflow float32 though LayerNorms are finite.
_LARGEST_WEIGHT = 1e15
#: The ends of the names of tensors stored as (in, out), transposed relative to torch's Linear.
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


@dataclass(frozen=True)
class Stored:
    """A tensor as the header of its file declares it; its numbers aren't read yet.

    They are the file's bytes from ``start`` to ``end``.
    """

    file: Path
    key: str
    size: tuple[int, ...]
    dtype: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.file.name}: {self.key}"

    @property
    def is_readable(self) -> bool:
        """True if its type is one that can be read."""
        return self.dtype in FLOATS

    def unpack(self, content: Tensor) -> Tensor:
        """The tensor's numbers from its bytes: in float32, of ``size``."""
        return content.view(FLOATS[self.dtype]).view(self.size).to(torch.float32)


def plain_name(key: str) -> str:
    """A tensor's name in the model, such as "h.0.ln_1.bias", from its key in a file."""
    return _BEFORE.sub("", key)


def is_of_task_head(name: str) -> bool:
    """True if a tensor belongs to another task's head on the model, such as a classifier."""
    return bool(_TASK_HEAD.match(name))


def headers(folder: Path) -> dict[str, Stored]:
    """The headers of all tensors in the files, by the model's names."""
    stored: dict[str, Stored] = {}
    for file in weight_files(folder):
        for tensor in header(file):
            name = plain_name(tensor.key)
            if name in stored:
                raise CheckpointError(f"{tensor} is there already as {stored[name]}")
            if not name.endswith(_IGNORED):
                stored[name] = tensor
    return stored


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights. Raises ``CheckpointError`` if there are none."""
    if is_there(folder / "model.safetensors"):
        return [folder / "model.safetensors"]
    index = folder / "model.safetensors.index.json"
    if is_there(index):
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise CheckpointError(f"{index.name}: weight_map, from tensor to file, is missing")
        names = sorted({str(name) for name in weight_map.values()})
        for name in names:
            if name in ("", "..") or Path(name).name != name or not is_there(folder / name):
                raise CheckpointError(f"{index.name}: {name!r:.100} is not a file in {folder}")
        return [folder / name for name in names]
    raise CheckpointError(
        remedy(folder) or f"{folder}: no model.safetensors and no model.safetensors.index.json"
    )


def header(file: Path) -> list[Stored]:
    """The tensors of one file, which fill it without gaps; only its header is read."""
    own_file(file)
    with reading(file.name, problem(file)), file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > _LARGEST_HEADER:
            raise ValueError(f"a header of {memory.spell(length)}")
        entries = json.loads(opened.read(length).decode("utf-8"))
        if not isinstance(entries, dict):
            raise ValueError("a header that isn't a JSON object")
        entries.pop("__metadata__", None)
        tensors = [_tensor_header(file, key, entry, 8 + length) for key, entry in entries.items()]
        size, end = os.fstat(opened.fileno()).st_size, 8 + length
    for tensor in sorted(tensors, key=lambda tensor: (tensor.start, tensor.end)):
        if tensor.start != end:
            raise bad_file(file, f"{tensor.key} starts at byte {tensor.start}, not {end}")
        end = tensor.end
    if end != size:
        raise bad_file(file, f"its tensors end at byte {end}, the file at {size}")
    return tensors


def _tensor_header(file: Path, key: str, entry: Any, after: int) -> Stored:
    """One tensor of a header, whose data offsets count from the byte ``after`` it.

    Raises ``ValueError`` or ``AttributeError`` for an invalid entry.
    """
    key.encode("utf-8")  # JSON can spell half a character
    dtype, size, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not (str(dtype).isidentifier() and _are_counts(size) and _are_counts(offsets)):
        raise ValueError(f"{key}: no dtype, shape and data_offsets")
    start, end = offsets  # a ValueError unless there are two
    if end < start or (dtype in FLOATS and end - start != FLOATS[dtype].itemsize * math.prod(size)):
        raise ValueError(f"{key}: {end - start} bytes for {tuple(size)} of {dtype}")
    return Stored(file, key, tuple(size), dtype, after + start, after + end)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**63 for n in values)


def problem(file: Path) -> str:
    """The complaint about a file that breaks its format."""
    return f"not a whole {'GGUF' if is_gguf(file) else 'safetensors'} file"


def bad_file(file: Path, why: object) -> CheckpointError:
    """The error for a file that breaks its format."""
    return CheckpointError(f"{file.name}: {problem(file)} ({why!s:.300})")


def read(stored: Mapping[str, Stored]) -> dict[str, Tensor]:
    """Read every tensor as the model needs it: float32, and transposed if Conv1D stored it."""
    weights: dict[str, Tensor] = {}
    for file in {tensor_header.file for tensor_header in stored.values()}:
        with reading(file.name, problem(file)), own_file(file).open("rb") as opened:
            for name, tensor_header in stored.items():
                if tensor_header.file == file:
                    tensor = numbers(opened, tensor_header)
                    weights[name] = tensor.t() if name.endswith(CONV1D) else tensor
    return weights


def numbers(opened: BinaryIO, tensor_header: Stored) -> Tensor:
    """Read one tensor in float32 from its file, and check that all its numbers are finite."""
    tensor = tensor_header.unpack(content_of(opened, tensor_header))
    check_numbers(tensor, tensor_header)
    return tensor


def content_of(opened: BinaryIO, stored: Stored) -> Tensor:
    """Read the bytes of one tensor from its file."""
    content = torch.empty(stored.end - stored.start, dtype=torch.uint8)
    opened.seek(stored.start)
    if opened.readinto(content.numpy()) != len(content):  # type: ignore[attr-defined]
        raise bad_file(stored.file, f"it ends within {stored.key}")
    return content


def check_numbers(tensor: Tensor, name: object) -> None:
    """Refuse NaN, infinity and nearly infinite numbers. It takes a fifth of a second per GB, once
    per model, for weights that the first run would read anyway."""
    low, high = torch.aminmax(tensor)
    if not -_LARGEST_WEIGHT <= low <= high <= _LARGEST_WEIGHT:  # NaN is neither
        wrong = ~(tensor.abs() <= _LARGEST_WEIGHT)
        index = wrong.nonzero()[0].tolist()
        raise CheckpointError(
            f"{name} holds {tensor[wrong][0].item():.3g} at {index}; weights are finite, and no "
            f"larger than {_LARGEST_WEIGHT:.0e}"
        )
