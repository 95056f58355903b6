"""Weights in about five bits per number: the format of a training run's earlier checkpoints.

A matrix is rounded to whole multiples of a step, one step for each row: its standard deviation
divided by 2^(bits − 2), or more where a number would lie beyond 127 steps. A number that is drawn
from a normal distribution then takes 2.05 + bits − 2 bits (the entropy of the rounded number), and
Huffman's code in deflate (RFC 1951) takes hardly more. Vectors are kept as they are.

The rounded weights are the checkpoint: every number shown of it is computed from
them. The file is a safetensors file: for each matrix the deflated int8 numbers, and
under its name with ``.step`` the steps of its rows in float32.
"""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
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
    bad_file,
    check_numbers,
    content_of,
    header,
    numbers,
    problem,
)

if TYPE_CHECKING:  # it imports the module of steps, which imports this one
    from gpt2viz.model.checkpoint import Model
    from gpt2viz.model.transformer import Transformer

#: With these, 4.56 million numbers make a file of 3.0 MB.
BITS = 5
_STEP = ".step"
_MOST = 127
# For a page: steps per standard deviation, and how many of a number's 9.4 bits are stored raw.
_FINE, _LOW = 153.0, 4
# How many random texts measure how fine a matrix must be, and tokens in each.
_TEXTS = (8, 16)
# The most octaves between the steps of two matrices; those texts may not use some matrix at all.
_APART = 8
# Raw deflate, as zlib's documentation counts windows.
_WINDOW = -15


def write_packed(weights: Mapping[str, Tensor], file: Path, bits: int = BITS) -> None:
    """Write weights, by torch's names and in its layout, in ``bits`` bits per number (2 to 8)."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    for name, weight in weights.items():
        weight = weight.detach().to("cpu", torch.float32).contiguous()
        if weight.ndim == 1:
            tensors[name] = weight
            continue
        fine = weight.std(dim=1, unbiased=False) / 2.0 ** (bits - 2)
        steps = torch.maximum(fine, weight.abs().amax(dim=1) / _MOST)  # (rows,)
        rounded = (weight / steps.where(steps > 0, 1)[:, None]).round().clamp(-_MOST, _MOST)
        coded = _compress(rounded.to(torch.int8).numpy().tobytes(), _WINDOW)
        tensors[name] = torch.frombuffer(bytearray(coded), dtype=torch.uint8)
        tensors[name + _STEP] = steps
    with whole(file) as partial:
        save_file(tensors, partial)


def _compress(content: bytes, window: int) -> bytes:
    coder = zlib.compressobj(9, zlib.DEFLATED, window, 9, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(content) + coder.flush()


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """A model's weights in 9.4 bits per number, for a page that runs it.

    ``sizes`` are name, rows, columns and step, the last two 0 for a vector. ``parts`` are the bytes
    that ``notebook/packed.js`` reads: "high" the numbers' upper bits, deflated, "low" the four
    lowest, two numbers a byte, "rest" eight more of some tokens' rows, and "plain" the vectors in
    float32. ``model`` has the weights as the page reads them, and ``error`` is the largest
    rounding error of any.
    """

    sizes: tuple[tuple[str, int, int, float], ...]
    parts: Mapping[str, bytes]
    model: Model
    error: float


def packed_bytes(config: ModelConfig) -> int:
    """The approximate total size of ``pack``'s parts."""
    return sum(math.prod(size) for _, size in weight_sizes(config)) * 19 // 16


def pack(model: Model, finer: Sequence[int]) -> PackedWeights:
    """Pack a model's weights, each matrix rounded to whole multiples of its own step.

    Rows of the tokens ``finer`` have eight more bits: those of single bytes, which are rare in
    training, suffer most from rounding.
    """
    network = copy.deepcopy(model.network).to("cpu", torch.float32)
    weights, steps = network.state_dict(), _steps(network)
    sizes, high, low, plain, parts, error = [], [], [], [], dict[str, bytes](), 0.0
    for name, size in weight_sizes(model.config):
        weight = weights[name]
        if weight.ndim == 1:
            sizes.append((name, size[0], 0, 0.0))
            plain.append(weight.numpy())
            continue
        step = steps[name].maximum(weight.abs().max() / (_MOST << _LOW))
        sizes.append((name, size[0], size[1], step.item()))
        codes = (weight / step).round().to(torch.int16)
        high.append((codes >> _LOW).to(torch.int8).numpy().tobytes())
        low.append((codes & 15).to(torch.uint8).numpy().ravel())
        rounded = codes * step
        if name == "wte.weight":
            rest = ((weight - rounded)[finer] / step * 256).round().clamp(-_MOST, _MOST)
            rounded[finer] += rest * (step / 256)
            parts["rest"] = rest.to(torch.int8).numpy().tobytes()
        error = max(error, float((rounded - weight).abs().max()))
        weight.copy_(rounded)
    pairs = np.pad(lowest := np.concatenate(low), (0, len(lowest) % 2)).reshape(-1, 2)
    parts |= {
        "high": _compress(b"".join(high), zlib.MAX_WBITS),
        "low": (pairs[:, 0] | pairs[:, 1] << _LOW).tobytes(),
        "plain": np.concatenate(plain).astype("<f4").tobytes(),
    }
    return PackedWeights(tuple(sizes), parts, replace(model, network=network), error)


def _steps(network: Transformer) -> dict[str, Tensor]:
    """The step of each matrix, such that all change next-token probabilities equally on average.

    Gradients over some random texts tell how much each matrix changes them. Steps are rounded, so
    that another machine gets the same ones from almost the same gradients.
    """
    network, draw = copy.deepcopy(network).requires_grad_(), torch.Generator().manual_seed(0)
    ids = torch.randint(network.config.vocab_size, _TEXTS, generator=draw)
    for causal in (True, False):
        chances = network(ids[:, : network.config.n_positions], causal=causal).softmax(-1)
        (chances * torch.randn(chances.shape, generator=draw)).sum().backward()
    matrices = {name: part for name, part in network.named_parameters() if part.ndim > 1}
    grads = [torch.zeros(1) if part.grad is None else part.grad for part in matrices.values()]
    moves = torch.stack([grad.square().mean().log2() / 2 for grad in grads])
    moves = moves.clamp(min=moves.max() - _APART)
    spread = torch.stack([part.detach().std().log2() for part in matrices.values()])
    numbers = torch.tensor([part.numel() for part in matrices.values()])
    mean = ((spread.clamp(min=-60) + moves) * numbers).sum() / numbers.sum() - math.log2(_FINE)
    return dict(zip(matrices, torch.exp2(((mean - moves) * 4).round() / 4), strict=True))


def read_packed(file: Path, config: ModelConfig) -> dict[str, Tensor]:
    """The weights in a file that ``write_packed`` wrote, in float32 and in torch's layout.

    Raises ``CheckpointError``, which names the file, if it isn't one, or of a model of other sizes.
    """
    declared = {tensor.key: tensor for tensor in header(file)}
    sizes = dict(weight_sizes(config))
    names = {key for name, size in sizes.items() for key in _keys(name, size)}
    if odd := sorted(names ^ declared.keys()):
        what = "is missing" if odd[0] in names else "has no place in this model"
        raise bad_file(file, f"{odd[0]} {what}")
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
    """Refuse another declaration, before anything of that size is allocated."""
    tensor, plain = declared[name], declared[_keys(name, size)[-1]]
    if (plain.dtype, plain.size) != ("F32", size[:1]):
        raise bad_file(tensor.file, f"{plain.key} is {plain.size} of {plain.dtype}, not {size[:1]}")
    # Incompressible data grow by five bytes in each 16 kB.
    most = math.prod(size) * 1.01 + 64
    length = tensor.end - tensor.start
    if len(size) == 2 and ((tensor.dtype, tensor.size) != ("U8", (length,)) or length > most):
        raise bad_file(tensor.file, f"{name} is {tensor.size} of {tensor.dtype}")


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
        raise bad_file(declared[name].file, f"{name}: {error}") from None
    # A stream may have an end code after its last byte, which is only read if more is requested.
    more = b"" if decoder.eof else decoder.decompress(decoder.unconsumed_tail, 1)
    if len(decoded) != count or more or not decoder.eof or decoder.unused_data:
        raise bad_file(declared[name].file, f"{name} isn't {count:,} numbers")
    steps = numbers(opened, declared[name + _STEP])
    rounded = torch.from_numpy(np.frombuffer(bytearray(decoded), np.int8)).view(size)
    weight = rounded * steps[:, None]  # (rows, columns)
    check_numbers(weight, declared[name])
    return weight
