"""Tiny GGUF files, written by the format's own package as llama.cpp's converter writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import MODEL_ARCH_NAMES, GGUFWriter, get_tensor_name_map
from torch import Tensor

#: A byte-level vocabulary with merges; the last token is special.
WORDS = ["a", "b", "c", "Ġ", "ab", "1", "2", "ĠĠ", "abc", "Ã", "©", "e", "Ì", "ģ", "12", "<|end|>"]
MERGES = ["a b", "Ġ Ġ", "ab c", "1 2"]
BYTE_LEVEL: dict[str, Any] = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": WORDS,
    "merges": MERGES,
    "token_type": [1] * 15 + [3],
    "eos_token_id": 15,
}
#: The sizes of ``tests.checkpoints.CONFIG``.
TINY: dict[str, Any] = {
    "context_length": 24,
    "embedding_length": 24,
    "block_count": 3,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.layer_norm_epsilon": 1e-5,
}


def write_gguf(
    file: Path,
    family: str,
    values: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    *,
    n_layers: int = 1,
    vocabulary: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model: ``values`` of its family, ``weights`` by transformers' names, a tokenizer."""
    writer = GGUFWriter(file, family)
    writer.add_name("tiny")
    vocabulary = BYTE_LEVEL if vocabulary is None else vocabulary
    keyed = {f"{family}.{key}": value for key, value in values.items()}
    keyed |= {f"tokenizer.ggml.{key}": value for key, value in vocabulary.items()}
    kinds = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}
    for key, value in keyed.items():
        getattr(writer, f"add_{kinds[type(value)]}")(key, value)
    (number,) = (arch for arch, name in MODEL_ARCH_NAMES.items() if name == family)
    names = get_tensor_name_map(number, n_layers)
    for name, weight in weights.items():
        array = weight.detach().float().numpy()
        if family == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            array = array.T
        for part, key in {"q_proj": "head_count", "k_proj": "head_count_kv"}.items():
            if family == "llama" and part in name:
                array = _interleaved(array, values[f"attention.{key}"])
        new = names.get_name(name, try_suffixes=(".weight", ".bias")) or name
        writer.add_tensor(new, np.ascontiguousarray(array))
    close(writer)
    return file


def close(writer: GGUFWriter) -> None:
    """Write the file with all that was added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(weight: np.ndarray[Any, Any], n_heads: int) -> np.ndarray[Any, Any]:
    """A head's rows in llama.cpp's order: the two of a RoPE pair side by side."""
    hs = len(weight) // n_heads
    order = [
        head * hs + i + half
        for head in range(n_heads)
        for i in range(hs // 2)
        for half in (0, hs // 2)
    ]
    return weight[order]
