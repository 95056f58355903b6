"""Weights in about five bits a number: what an earlier point of a training is kept in.

A matrix is rounded to whole multiples of a step, one step for each row: its standard deviation
divided by 2^(bits − 2), or more where a number would lie beyond 127 steps. A number that is drawn
from a normal distribution then says 2.05 + bits − 2 bits (the entropy of the rounded number), and
Huffman's code in deflate (RFC 1951) takes hardly more. Vectors are kept as they are.

What is read from such a file is the checkpoint: every number that is shown of it is computed from
the rounded weights. The file is a safetensors file: for each matrix the deflated int8 numbers, and
under its name with ``.step`` the steps of its rows in float32.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from gpt2viz.files import own_file, reading, whole
from gpt2viz.model.config import ModelConfig
from gpt2viz.model.weights import (
    CONV1D,
    Stored,
    broken,
    check_numbers,
    content_of,
    header,
    numbers,
    problem,
)

#: Of 4.56 million numbers a file of 3.0 MB.
BITS = 5
_STEP = ".step"
_MOST = 127
# Raw deflate, as zlib's documentation counts windows.
_WINDOW = -15


def write_packed(weights: Mapping[str, Tensor], file: Path, bits: int = BITS) -> None:
    """Write weights, by torch's names and in its layout, in ``bits`` bits a number (2 to 8)."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    for name, weight in weights.items():
        weight = weight.detach().to("cpu", torch.float32).contiguous()
        if weight.ndim == 1:
            tensors[name] = weight
            continue
        steps, rounded = _rounded(weight, bits)
        coder = zlib.compressobj(9, zlib.DEFLATED, _WINDOW, 9, zlib.Z_HUFFMAN_ONLY)
        coded = coder.compress(rounded.numpy().tobytes()) + coder.flush()
        tensors[name] = torch.frombuffer(bytearray(coded), dtype=torch.uint8)
        tensors[name + _STEP] = steps
    with whole(file) as partial:
        save_file(tensors, partial)


def _rounded(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """The step of each row (rows,), and each number as a multiple of it: int8 (rows, columns)."""
    spread = weight.std(dim=1, unbiased=False) / 2 ** (bits - 2)
    steps = torch.maximum(spread, weight.abs().amax(dim=1) / _MOST)
    rounded = (weight / steps.where(steps > 0, 1)[:, None]).round().clamp(-_MOST, _MOST)
    return steps, rounded.to(torch.int8)


def read_packed(file: Path, config: ModelConfig) -> dict[str, Tensor]:
    """The weights in a file that ``write_packed`` wrote, in float32 and in torch's layout.

    Raises ``CheckpointError`` naming the file where it isn't such a file of a model of these sizes.
    """
    declared = {tensor.key: tensor for tensor in header(file)}
    sizes = dict(weight_sizes(config))
    names = {key for name, size in sizes.items() for key in _keys(name, size)}
    if odd := sorted(names ^ declared.keys()):
        what = "is missing" if odd[0] in names else "has no place in this model"
        raise broken(file, f"{odd[0]} {what}")
    for name, size in sizes.items():
        _compare(declared, name, size)
    with reading(file.name, problem(file)), own_file(file).open("rb") as opened:
        return {name: _weight(opened, declared, name, size) for name, size in sizes.items()}


def weight_sizes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and size of every weight, in torch's layout; a tied one once."""
    for name, size in config.tensors():
        if name != "lm_head.weight" or not config.tie_word_embeddings:
            yield name, size[::-1] if name.endswith(CONV1D) else size


def _keys(name: str, size: tuple[int, ...]) -> tuple[str, ...]:
    return (name,) if len(size) == 1 else (name, name + _STEP)


def _compare(declared: Mapping[str, Stored], name: str, size: tuple[int, ...]) -> None:
    """Refuse another declaration, before anything of that size is made."""
    tensor, plain = declared[name], declared[_keys(name, size)[-1]]
    if (plain.dtype, plain.size) != ("F32", size[:1]):
        raise broken(tensor.file, f"{plain.key} is {plain.size} of {plain.dtype}, not {size[:1]}")
    # What can't be made smaller grows by five bytes in each 16 kB.
    most = math.prod(size) * 1.01 + 64
    length = tensor.end - tensor.start
    if len(size) == 2 and ((tensor.dtype, tensor.size) != ("U8", (length,)) or length > most):
        raise broken(tensor.file, f"{name} is {tensor.size} of {tensor.dtype}")


def _weight(
    opened: BinaryIO, declared: Mapping[str, Stored], name: str, size: tuple[int, ...]
) -> Tensor:
    if len(size) == 1:
        return numbers(opened, declared[name])
    count = math.prod(size)
    decoder = zlib.decompressobj(_WINDOW)
    try:
        decoded = decoder.decompress(content_of(opened, declared[name]).numpy().tobytes(), count)
    except zlib.error as error:
        raise broken(declared[name].file, f"{name}: {error}") from None
    # A stream may end with a code that says so and nothing else, which is read by asking for more.
    more = b"" if decoder.eof else decoder.decompress(decoder.unconsumed_tail, 1)
    if len(decoded) != count or more or not decoder.eof or decoder.unused_data:
        raise broken(declared[name].file, f"{name} isn't {count:,} numbers")
    steps = numbers(opened, declared[name + _STEP])
    rounded = torch.from_numpy(np.frombuffer(bytearray(decoded), np.int8)).view(size)
    weight = rounded * steps[:, None]  # (rows, columns)
    check_numbers(weight, declared[name])
    return weight
