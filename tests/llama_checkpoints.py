"""Tiny random checkpoints of Llama's family, laid out as transformers writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.checkpoints import write_tokenizer

CONFIG: dict[str, Any] = {"model_type": "llama", "vocab_size": 420, "hidden_size": 24}
CONFIG |= {"num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2}
CONFIG |= {"intermediate_size": 40, "max_position_embeddings": 40, "rms_norm_eps": 1e-5}
CONFIG |= {"hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False}
CONFIG |= {"mlp_bias": False, "head_dim": 4, "bos_token_id": 0, "eos_token_id": 0}
CONFIG |= {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}

_LINEAR = {"rope_type": "linear", "rope_theta": 50.0, "factor": 4.0}
_LLAMA3 = {"rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0}
_LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
_SLIDING = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}

#: Models of each family: every option is on in one of them and off in another.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama, one group, all biases, linear RoPE": {
        "num_key_value_heads": 1,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_parameters": _LINEAR,
    },
    "llama, no groups, untied, wide heads, RoPE of Llama 3": {
        "num_key_value_heads": 6,
        "head_dim": 10,
        "tie_word_embeddings": False,
        "rope_parameters": _LLAMA3,
    },
    "mistral": {"model_type": "mistral", "sliding_window": 4, "num_key_value_heads": 3},
    "qwen2": {"model_type": "qwen2", "num_key_value_heads": 3},
    "qwen2, a window in deeper layers": {"model_type": "qwen2", **_SLIDING},
    "qwen3": {"model_type": "qwen3", "head_dim": 8},
    "qwen3, biases, a window in one layer": {
        "model_type": "qwen3",
        "attention_bias": True,
        **_SLIDING,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    },
}


def write_llama(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write a whole checkpoint into a folder; return the folder.

    Weights and biases are large and random, so that a wrong formula shows in the numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    config = CONFIG | changes
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.manual_seed(seed)
    weights = {}
    for name, shape in shapes(config):
        around = 1.0 if "norm" in name else 0.0
        weights[name] = around + 0.7 * config["hidden_size"] ** -0.5 * torch.randn(shape)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors of a checkpoint by the names of transformers."""
    C, F, hs = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    nh, nkv = config["num_attention_heads"], config["num_key_value_heads"]
    biased = config["attention_bias"]
    qkv_biased = biased or config["model_type"] == "qwen2"
    linear = {
        "self_attn.q_proj": (nh * hs, C, qkv_biased),
        "self_attn.k_proj": (nkv * hs, C, qkv_biased),
        "self_attn.v_proj": (nkv * hs, C, qkv_biased),
        "self_attn.o_proj": (C, nh * hs, biased),
        "mlp.gate_proj": (F, C, config["mlp_bias"]),
        "mlp.up_proj": (F, C, config["mlp_bias"]),
        "mlp.down_proj": (C, F, config["mlp_bias"]),
    }
    yield "model.embed_tokens.weight", (config["vocab_size"], C)
    for n in range(config["num_hidden_layers"]):
        for name, (rows, columns, has_bias) in linear.items():
            yield f"model.layers.{n}.{name}.weight", (rows, columns)
            if has_bias:
                yield f"model.layers.{n}.{name}.bias", (rows,)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{n}.{name}.weight", (C,)
        if config["model_type"] == "qwen3":
            yield f"model.layers.{n}.self_attn.q_norm.weight", (hs,)
            yield f"model.layers.{n}.self_attn.k_norm.weight", (hs,)
    yield "model.norm.weight", (C,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], C)
