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

import copy
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

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

if TYPE_CHECKING:  # which reads checkpoints of steps, and these what is packed
    from gpt2viz.model.checkpoint import Model

#: Of 4.56 million numbers a file of 3.0 MB.
BITS = 5
_STEP = ".step"
_MOST = 127
# Steps in a standard deviation where a number has nine bits, of which so many are kept as such.
_FINE, _LOW = 120.0, 2
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
        steps, rounded = _rounded(weight, 2.0 ** (bits - 2), _MOST)
        coded = _coded(rounded.to(torch.int8).numpy().tobytes(), _WINDOW)
        tensors[name] = torch.frombuffer(bytearray(coded), dtype=torch.uint8)
        tensors[name + _STEP] = steps
    with whole(file) as partial:
        save_file(tensors, partial)


def _coded(content: bytes, window: int) -> bytes:
    coder = zlib.compressobj(9, zlib.DEFLATED, window, 9, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(content) + coder.flush()


def _rounded(weight: Tensor, fine: float, most: int) -> tuple[Tensor, Tensor]:
    """The step of each row (rows,), ``fine`` of them in a standard deviation, and each number as a
    multiple of it, up to ``most``: int16 (rows, columns)."""
    steps = torch.maximum(weight.std(dim=1, unbiased=False) / fine, weight.abs().amax(dim=1) / most)
    rounded = (weight / steps.where(steps > 0, 1)[:, None]).round().clamp(-most, most)
    return steps, rounded.to(torch.int16)


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """A model's weights in nine bits a number, for a page that runs it.

    ``sizes`` are name, rows and columns, 0 of a vector. ``parts`` are the bytes that
    ``notebook/packed.js`` reads: "high" the numbers' upper bits, deflated, "low" the two lowest,
    four numbers a byte, and "plain" the steps of rows and the vectors in float32. ``model`` has
    the weights as they are read there, and ``error`` is how far off the farthest one is.
    """

    sizes: tuple[tuple[str, int, int], ...]
    parts: Mapping[str, bytes]
    model: Model
    error: float


def packed_bytes(config: ModelConfig) -> int:
    """About as many bytes as the parts of ``pack`` take together."""
    return sum(math.prod(size) for _, size in weight_sizes(config)) * 9 // 8


def pack(model: Model) -> PackedWeights:
    """The weights of a model, rounded as those of ``write_packed`` are, but to finer steps."""
    network = copy.deepcopy(model.network).to("cpu", torch.float32)
    weights = network.state_dict()
    sizes, high, low, plain, error = [], [], [], [], 0.0
    for name, size in weight_sizes(model.config):
        weight = weights[name]
        sizes.append((name, size[0], size[1] if len(size) > 1 else 0))
        if weight.ndim == 1:
            plain.append(weight.numpy())
            continue
        steps, codes = _rounded(weight, _FINE, _MOST << _LOW)
        plain.append(steps.numpy())
        high.append((codes >> _LOW).to(torch.int8).numpy().tobytes())
        low.append((codes & 3).to(torch.uint8).numpy().ravel())
        rounded = codes * steps[:, None]
        error = max(error, float((rounded - weight).abs().max()))
        weight.copy_(rounded)
    fours = np.pad(lowest := np.concatenate(low), (0, -len(lowest) % 4)).reshape(-1, 4)
    parts = {
        "high": _coded(b"".join(high), zlib.MAX_WBITS),
        "low": np.bitwise_or.reduce(fours << np.array([0, 2, 4, 6], np.uint8), axis=1).tobytes(),
        "plain": np.concatenate(plain).astype("<f4").tobytes(),
    }
    return PackedWeights(tuple(sizes), parts, replace(model, network=network), error)


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
