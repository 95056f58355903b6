"""The safetensors files of a checkpoint: what their headers declare, and the numbers in them.

Only safetensors: a pickle can run code when it is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpt2viz import memory
from gpt2viz.errors import CheckpointError
from gpt2viz.files import is_there, own_file, read_json

# Masks that old files carry as if they were weights.
_IGNORED = (".attn.bias", ".attn.masked_bias")
# Describes some 40,000 tensors. The library reads up to 100 MB, which take ten times as much.
_LARGEST_HEADER = 4_000_000
# Beyond, what a model multiplies and adds could leave float32 though its LayerNorms are finite.
_LARGEST_WEIGHT = 1e15
#: Stored as (in, out), the other way round than torch's Linear: the ends of their names.
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")

# Code to paste: not indented, and with whole paths.
_CONVERT = """\
{folder}: the weights are only there as a pickle ({file.name}), which can run code when it is
opened. Convert it once, in Python, on a machine where you trust the file:

import torch
from safetensors.torch import save_file
weights = torch.load({source!r}, weights_only=True)
save_file({{k: v.clone().contiguous() for k, v in weights.items()}}, {target!r})"""


@dataclass(frozen=True)
class Stored:
    """A tensor as the header of its file declares it; nothing of it is read yet."""

    file: Path
    key: str
    size: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.file.name}: {self.key}"


def headers(folder: Path) -> dict[str, Stored]:
    """What the files hold, by the model's names."""
    stored: dict[str, Stored] = {}
    for file in weight_files(folder):
        with _open(file) as tensors:
            for key in tensors.keys():  # noqa: SIM118 (a safetensors handle is no dict)
                name = key.removeprefix("transformer.")
                part = tensors.get_slice(key)
                found = Stored(file, key, tuple(part.get_shape()), part.get_dtype())
                if name in stored:
                    raise CheckpointError(f"{found} is there already as {stored[name]}")
                if not name.endswith(_IGNORED):
                    stored[name] = found
    return stored


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights. Raises ``CheckpointError`` where there are none."""
    if is_there(folder / "model.safetensors"):
        return [folder / "model.safetensors"]
    index = folder / "model.safetensors.index.json"
    if is_there(index):
        places = read_json(index).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise CheckpointError(f"{index.name}: weight_map, from tensor to file, is missing")
        names = sorted({str(name) for name in places.values()})
        for name in names:
            if not name or Path(name).name != name or not is_there(folder / name):
                raise CheckpointError(f"{index.name}: {name!r:.100} is not a file in {folder}")
        return [folder / name for name in names]
    for file in (folder / name for name in ("pytorch_model.bin", "model.bin", "model.pt")):
        if is_there(file):
            source, target = (os.path.abspath(p) for p in (file, folder / "model.safetensors"))
            raise CheckpointError(
                _CONVERT.format(folder=folder, file=file, source=source, target=target)
            )
    raise CheckpointError(f"{folder}: no model.safetensors and no model.safetensors.index.json")


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    try:
        with own_file(file).open("rb") as start:
            size = int.from_bytes(start.read(8), "little")
        if size > _LARGEST_HEADER:
            raise CheckpointError(
                f"{file.name}: not a whole safetensors file (a header of {memory.spell(size)})"
            )
        with safe_open(file, framework="pt") as tensors:
            yield tensors
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file.name}: not a whole safetensors file ({error})") from None


def read(stored: Mapping[str, Stored]) -> dict[str, Tensor]:
    """Every tensor as the model wants it: float32, and turned round where Conv1D stored it."""
    weights: dict[str, Tensor] = {}
    for file in {found.file for found in stored.values()}:
        with _open(file) as tensors:  # once: each time would map the whole file again
            for name, found in stored.items():
                if found.file == file:
                    tensor = tensors.get_tensor(found.key).to(torch.float32)
                    _check_numbers(tensor, found)
                    weights[name] = tensor.t() if name.endswith(CONV1D) else tensor
    return weights


def _check_numbers(tensor: Tensor, found: Stored) -> None:
    """Refuse NaN, infinity and what is nearly that. Reading all of it takes a fifth of a second
    a GB, once a model; the first run would read nearly all of it anyway."""
    low, high = torch.aminmax(tensor)
    if not -_LARGEST_WEIGHT <= low <= high <= _LARGEST_WEIGHT:  # NaN is neither
        wrong = ~(tensor.abs() <= _LARGEST_WEIGHT)
        place = wrong.nonzero()[0].tolist()
        raise CheckpointError(
            f"{found} holds {tensor[wrong][0].item():.3g} at {place}; weights are finite, and no "
            f"larger than {_LARGEST_WEIGHT:.0e}"
        )
