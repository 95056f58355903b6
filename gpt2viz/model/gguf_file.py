"""GGUF, llama.cpp's files: a model's config, weights and tokenizer in one.

The header is read here, and no length in it is trusted before the file is known to be that long.
The reader of the format's own package maps a file, trusts it, and takes 9 s and 470 MB for the
vocabulary of Llama 3, instead of 0.3 s. That package, ``gguf``, unpacks the numbers, of one tensor
at a time. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from gpt2viz.errors import CheckpointError
from gpt2viz.extras import require
from gpt2viz.files import own_file, reading
from gpt2viz.model.config import Rope
from gpt2viz.model.llama import speeds
from gpt2viz.model.memory import spell
from gpt2viz.model.weights import CONV1D, Stored, numbers, problem

_VERSIONS = (2, 3)
# Gemma's, with a vocabulary of 262,144, has 16 MB; Llama 3's has 410,000 tokens and merges.
_LARGEST_HEADER, _MOST_ENTRIES = 32_000_000, 1_000_000
# Types of values in a header by their numbers.
_FORMS = zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True)
_NUMBERS = {kind: struct.Struct(f"<{form}") for kind, form in _FORMS}
_SIZE, _LENGTH = _NUMBERS[4], _NUMBERS[10]
_TEXT, _ARRAY = 8, 9
# Two for matrices and one for vectors; the format's package supports at most four.
_MOST_DIMENSIONS = 4
# In bytes, as in llama.cpp, which adds a zero.
_LONGEST_NAME = 63
# Rows that are unpacked as one.
_ROWS = 32

_NAME = re.compile(r"(?:blk\.(\d{1,6})\.)?(\w+)\.(weight|bias)")
# The prefix of a layer's tensors, and the name of each.
_GPT2 = (
    "h",
    {
        "token_embd": "wte",
        "position_embd": "wpe",
        "output_norm": "ln_f",
        "output": "lm_head",
        "attn_norm": "ln_1",
        "attn_qkv": "attn.c_attn",
        "attn_output": "attn.c_proj",
        "ffn_norm": "ln_2",
        "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj",
    },
)
_LLAMA = (
    "layers",
    {
        "token_embd": "embed_tokens",
        "output_norm": "norm",
        "output": "lm_head",
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    },
)
_NAMES = {"gpt2": _GPT2, "llama": _LLAMA, "qwen2": _LLAMA, "qwen3": _LLAMA}
# Fields of config.json, by the header's keys without the architecture's name.
_SIZES = {
    "gpt2": {
        "context_length": "n_positions",
        "embedding_length": "n_embd",
        "block_count": "n_layer",
        "feed_forward_length": "n_inner",
        "attention.head_count": "n_head",
        "attention.layer_norm_epsilon": "layer_norm_epsilon",
    },
    "llama": {
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "block_count": "num_hidden_layers",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    },
}
# The tensor that holds Llama 3's scaling, and its values, the same for all of these models.
_ROPE = "rope_freqs.weight"
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass(frozen=True)
class GGUFTensor(Stored):
    """A tensor as the header declares it: ``name``, without "model.", and ``size`` are those of
    Hugging Face's files, and ``kind`` is the number of its type.

    ``turned`` is the number of heads whose rows llama.cpp has reordered, 0 for none.
    """

    name: str
    kind: int
    turned: int

    @property
    def is_readable(self) -> bool:
        """True: a header with another type was refused."""
        return True

    def unpack(self, content: Tensor) -> Tensor:
        """The numbers in float32, of ``size``, with the rows of each head in their own order."""
        from gguf import GGMLQuantizationType, quants

        size = _as_linear(self.name, self.size)
        n_rows = math.prod(size[:-1])
        # Many rows as one: it unpacks sixteen at a time, and some rows are very short.
        rows = content.numpy().reshape(n_rows // math.gcd(n_rows, _ROWS), -1)
        with np.errstate(all="ignore"):  # NaN is refused afterwards
            values = quants.dequantize(rows, GGMLQuantizationType(self.kind))
        tensor = torch.from_numpy(values).view(size)
        if self.turned:  # from adjacent pairs to two halves, as transformers rotates
            pairs = tensor.view(self.turned, -1, 2, *size[1:])  # (nh, hs / 2, 2, C)
            tensor = pairs.transpose(1, 2).reshape(size)
        return tensor.t() if self.name.endswith(CONV1D) else tensor


@dataclass(frozen=True)
class Header:
    """The metadata by their keys, and the tensors by the model's names.

    ``rope`` is the tensor that positions are scaled by, if any: it is part of the config.
    """

    values: Mapping[str, Any]
    tensors: Mapping[str, GGUFTensor]
    rope: GGUFTensor | None


def read_header(file: Path) -> Header:
    """The header of a GGUF file; no tensor is read.

    Raises ``CheckpointError`` if it is invalid, or the model is of another family, and
    ``MissingExtraError`` without the package ``gguf``.
    """
    with reading(file.name, problem(file)), require("A GGUF file", "gguf"):
        status = own_file(file).stat()
        return _parse(file, status.st_size, status.st_mtime_ns)


def forget() -> None:
    """Free the headers in the cache: the vocabulary in one takes some MB."""
    _parse.cache_clear()


@lru_cache(maxsize=2)  # loading a model reads it four times
def _parse(file: Path, size: int, _changed: int) -> Header:
    with file.open("rb") as opened:
        reader = _Reader(opened, size)
        if reader.take(4) != b"GGUF":
            raise ValueError("it doesn't begin with GGUF")
        if (version := reader.number(_SIZE)) not in _VERSIONS:
            raise ValueError(f"version {version} of the format, not {_VERSIONS[0]} or later")
        n_tensors, n_values = reader.count(), reader.count()
        values = {}
        for _ in range(n_values):
            key = reader.text()
            values[key] = reader.value(reader.number(_SIZE))
        kind = values["general.architecture"]
        if kind not in _NAMES:
            raise CheckpointError(
                f"{file.name}: general.architecture is {kind!r:.60}; only {', '.join(_NAMES)} "
                "can be read"
            )
        tensors = _tensors(file, size, reader, n_tensors, values)
        return Header(values, tensors, tensors.pop(_ROPE, None))


class _Reader:
    """Reads a header sequentially, within the file's size and a fixed bound."""

    def __init__(self, opened: BinaryIO, size: int) -> None:
        self._opened, self._left, self._entries = opened, min(size, _LARGEST_HEADER), _MOST_ENTRIES

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count > self._left:
            raise ValueError(
                f"{spell(count)} are announced where {spell(self._left)} of a header can follow"
            )
        self._left -= count
        return self._opened.read(count)

    def number(self, form: struct.Struct) -> Any:
        """The next number, in that form."""
        (value,) = form.unpack(self.take(form.size))
        return value

    def count(self) -> int:
        """The next number of entries; all of them may add up to a million at most."""
        count: int = self.number(_LENGTH)
        self._entries -= count
        if self._entries < 0:
            raise ValueError(f"{count:,} entries, and {_MOST_ENTRIES:,} are the most")
        return count

    def text(self) -> str:
        """The next string."""
        return self.take(self.number(_LENGTH)).decode("utf-8")

    def value(self, kind: int, *, inside: bool = False) -> Any:
        """The next value, of the type with this number; a list can't be ``inside`` another."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY or inside:
            raise ValueError(f"a value of the type {kind}")
        kind = self.number(_SIZE)
        return [self.value(kind, inside=True) for _ in range(self.count())]

    def end(self, alignment: int) -> int:
        """The aligned byte at which the data begin, after the header."""
        return _align(self._opened.tell(), alignment)


def _align(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _tensors(
    file: Path, size: int, reader: _Reader, count: int, values: Mapping[str, Any]
) -> dict[str, GGUFTensor]:
    """The tensors by the model's names: contiguous, within a file of ``size`` bytes.

    Raises ``ValueError`` if they aren't.
    """
    family = values["general.architecture"]
    heads = values.get(f"{family}.attention.head_count")
    turned = {"attn_q": heads, "attn_k": values.get(f"{family}.attention.head_count_kv", heads)}
    declared = [_tensor_entry(reader) for _ in range(count)]
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment < 2**16:
        raise ValueError(f"general.alignment is {alignment!r:.60}")
    first = end = reader.end(alignment)
    tensors: dict[str, GGUFTensor] = {}
    for key, dimensions, kind, offset in declared:
        name, part = _names(key, family)
        if name in tensors:
            raise ValueError(f"{key} is there twice")
        dtype, numbers_of_block, nbytes = _block(key, kind)
        *rows, columns = dimensions
        if columns % numbers_of_block:
            raise ValueError(f"{key} has rows of {columns}, no multiple of {numbers_of_block}")
        start = first + offset
        if start != _align(end, alignment):
            raise ValueError(f"{key} starts at byte {start}, not {_align(end, alignment)}")
        end = start + math.prod(rows) * (columns // numbers_of_block) * nbytes
        if end > size:
            raise ValueError(f"{key} ends at byte {end}, the file at {size}")
        n_heads = turned.get(part, 0) if family == "llama" else 0
        if n_heads and dimensions[0] % (2 * n_heads):
            raise ValueError(f"{key} has {dimensions[0]} rows for {n_heads} heads")
        shape = _as_linear(name, tuple(dimensions))
        tensors[name] = GGUFTensor(file, key, shape, dtype, start, end, name, kind, n_heads)
    return tensors


def _tensor_entry(reader: _Reader) -> tuple[str, list[int], int, int]:
    """A tensor's entry: its name, its size, its type, and its offset after the header."""
    key, n_dimensions = reader.text(), reader.number(_SIZE)
    if len(key) > _LONGEST_NAME or not key.isprintable():
        raise ValueError(f"a tensor is called {key!r:.60}")
    if not 1 <= n_dimensions <= _MOST_DIMENSIONS:
        raise ValueError(f"{key} has {n_dimensions} dimensions")
    dimensions = [reader.number(_LENGTH) for _ in range(n_dimensions)]
    return key, dimensions[::-1], reader.number(_SIZE), reader.number(_LENGTH)


def _names(key: str, family: str) -> tuple[str, str]:
    """A tensor's name in the model, if known, otherwise its own, and its part's in the file."""
    match, (layers, parts) = _NAME.fullmatch(key), _NAMES[family]
    if match is None or match[2] not in parts:
        return key, ""
    within = f"{layers}.{match[1]}." if match[1] else ""
    return f"{within}{parts[match[2]]}.{match[3]}", match[2]


def _as_linear(name: str, size: tuple[int, ...]) -> tuple[int, ...]:
    """Reverse a size where Hugging Face's GPT-2 stores (in, out)."""
    return size[::-1] if name.endswith(CONV1D) else size


@lru_cache(maxsize=64)
def _type(kind: int) -> tuple[str, int, int]:
    """The type with this number: its name, the count of a block's numbers, and a block's bytes."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    named = GGMLQuantizationType(kind)
    count, nbytes = GGML_QUANT_SIZES[named]
    quants.dequantize(np.zeros((1, nbytes), np.uint8), named)  # it lists types it can't unpack
    return named.name, count, nbytes


def _block(key: str, kind: int) -> tuple[str, int, int]:
    try:
        return _type(kind)
    except (ValueError, KeyError, NotImplementedError):
        raise ValueError(f"{key} is of the type {kind}, which can't be unpacked") from None


def read_config(file: Path) -> dict[str, Any]:
    """The fields of the ``config.json`` that the model would have in Hugging Face's layout.

    Raises what ``read_header`` raises, and ``CheckpointError`` where a field is missing.
    """
    header = read_header(file)
    with reading(file.name, "its config can't be read"):
        values, tensors = header.values, header.tensors
        family = values["general.architecture"]
        given = {
            key.removeprefix(f"{family}."): _short(value)
            for key, value in values.items()
            if key.startswith(f"{family}.")
        }
        sizes = _SIZES.get(family, _SIZES["llama"])
        embedding = "wte.weight" if family == "gpt2" else "embed_tokens.weight"
        config = {
            "model_type": family,
            "_name_or_path": str(values.get("general.name", "")),
            "vocab_size": given.get("vocab_size", tensors[embedding].size[0]),
            "tie_word_embeddings": "lm_head.weight" not in tensors,
            **{name: given[key] for key, name in sizes.items()},
        }
        return config if family == "gpt2" else config | _llama_fields(given, config, header)


def _short(value: Any) -> Any:
    """Round a float32 number of the header to the digits that it was written with."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _llama_fields(
    given: Mapping[str, Any], config: Mapping[str, Any], header: Header
) -> dict[str, Any]:
    """The fields that GPT-2 doesn't have."""
    tensors = header.tensors
    heads, biased = config["num_attention_heads"], "layers.0.{}.bias"
    across = given.get("rope.dimension_count")
    head_dim = given.get("attention.key_length") or across or config["hidden_size"] // heads
    if across and across != head_dim:
        raise ValueError(f"{across} of {head_dim} channels of a head are turned by position")
    base = given.get("rope.freq_base", 10_000.0)
    fields = {
        "num_key_value_heads": given.get("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rope_theta": base,
        "rope_scaling": _scaling(given),
        "mlp_bias": biased.format("mlp.up_proj") in tensors,
    }
    if config["model_type"] != "qwen2":  # it always has them
        fields["attention_bias"] = biased.format("self_attn.q_proj") in tensors
    if header.rope:
        fields["rope_scaling"] = _llama3_scaling(header.rope, base, head_dim)
    if window := given.get("attention.sliding_window"):
        if config["model_type"] != "llama":
            raise ValueError("attention.sliding_window doesn't say in which layers")
        fields |= {"model_type": "mistral", "sliding_window": window}
    return fields


def _scaling(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """``rope_scaling`` as Hugging Face writes it, None for none."""
    kind = given.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    fields = {
        "factor": given.get("rope.scaling.factor"),
        "original_max_position_embeddings": given.get("rope.scaling.original_context_length"),
    }
    return {"rope_type": kind} | {name: n for name, n in fields.items() if n is not None}


def _llama3_scaling(tensor: GGUFTensor, base: float, head_dim: int) -> dict[str, Any]:
    """Llama 3's scaling of positions; the file has only its result, (hs / 2,) divisors.

    Raises ``ValueError`` if they come from another scaling.
    """
    if tensor.size != (head_dim // 2,):
        raise ValueError(f"{tensor.key} is {tensor.size}, not {(head_dim // 2,)}")
    with own_file(tensor.file).open("rb") as opened:
        divisors = numbers(opened, tensor)  # (hs / 2,)
    rope = Rope(base, "llama3", _short(float(divisors.max())))
    expected = speeds(Rope(base), head_dim) / speeds(rope, head_dim)
    if not np.allclose(divisors, expected, rtol=1e-4):
        raise ValueError(f"{tensor.key} isn't Llama 3's scaling of positions")
    return {"rope_type": "llama3", "factor": rope.factor, **_LLAMA3}
