"""The meaning of every field of ``config.json``, a sentence each, and the fields not read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpt2viz.labels import percent, shorten
from gpt2viz.model.config import (
    ALSO,
    FIXED,
    LLAMA_FIXED,
    LLAMA_NAMES,
    LlamaConfig,
    ModelConfig,
    Rope,
)

#: Field -> (unit, meaning), of all fields of a GPT-2's config …
MEANING: Mapping[str, tuple[str, str]] = {
    "vocab_size": ("tokens", "How many different tokens it knows: the rows of its token table."),
    "n_positions": ("tokens", "The longest text that it reads at once, its context."),
    "n_embd": ("channels", "The numbers that stand for one token all the way through: C."),
    "n_layer": ("layers", "How many times attention and MLP follow one another."),
    "n_head": ("heads", "Attentions of each layer that work side by side: nh."),
    "n_inner": ("channels", "The width inside the MLP: F. Left empty it is four times n_embd."),
    "activation_function": ("", "The curve between the two halves of the MLP."),
    "layer_norm_epsilon": ("", "Added to the variance in each norm, so that nothing is / 0."),
    "scale_attn_by_inverse_layer_idx": (
        "",
        "Whether the scores of layer n, from 0, are divided by n + 1 as well.",
    ),
    "tie_word_embeddings": (
        "",
        "Whether the last step reuses the token table or has a table of its own.",
    ),
    "embd_pdrop": ("of the numbers", "Set to 0 by chance after the embeddings; only in training."),
    "attn_pdrop": ("of the weights", "Set to 0 by chance in attention; only in training."),
    "resid_pdrop": (
        "of the numbers",
        "Set to 0 by chance before each addition to the stream; only in training.",
    ),
    "initializer_range": ("", "How far the first weights were spread; only before training."),
}

#: … and of a Llama's, where some fields have GPT-2's meanings.
LLAMA_MEANING: Mapping[str, tuple[str, str]] = {
    **{name: MEANING[name] for name in ("vocab_size", "n_positions", "n_embd", "n_layer")},
    "n_head": MEANING["n_head"],
    "n_kv_head": ("groups", "Heads of a group share their keys and values: nkv."),
    "head_dim": ("channels", "The width of one head: hs."),
    "mlp_dim": ("channels", "The width inside the MLP: F."),
    "rms_norm_eps": ("", "Added to the mean square in each norm, so that nothing is / 0."),
    "hidden_act": ("", "The curve of the MLP's gate."),
    "rope": ("", "The speeds at which positions turn queries and keys."),
    "attention_bias": ("", "Whether attention adds biases; a qwen2's Q, K and V have them."),
    "mlp_bias": ("", "Whether the MLP's projections add a bias."),
    "tie_word_embeddings": MEANING["tie_word_embeddings"],
    "sliding_window": ("", "The keys that a query sees at most, itself included."),
    "max_window_layers": ("", "The first layer, from 0, that has this window."),
    "layer_types": ("", "Which layers have this window."),
}
# The names of RoPE settings in files, old and new.
_ROPE = ("rope_parameters", "rope_theta", "rope_scaling")

#: Fields that are read only to refuse another value, which means another model.
_DEMANDED: Mapping[str, str] = {
    "model_type": "The model's family, one that gpt2viz knows.",
    "scale_attn_weights": "Scores are divided by √hs.",
    "add_cross_attention": "No attention to a second text.",
    "pruned_heads": "No head was taken out.",
    "quantization_config": "Weights are stored as plain numbers.",
    "pretraining_tp": "No matrix is multiplied in parts.",
    "partial_rotary_factor": "All channels of queries and keys are turned.",
}


@dataclass(frozen=True)
class Field:
    """One field: its value with its unit, its meaning, and its source.

    ``source`` is "config.json", or another name there, or "default" if the file leaves it out.
    """

    name: str
    value: str
    meaning: str
    source: str


def explain(config: ModelConfig, values: Mapping[str, Any]) -> list[Field]:
    """Every field that is read. ``values`` is the file's content, ``config`` is made from it."""
    llama = isinstance(config, LlamaConfig)
    other = {name: also for also, name in (LLAMA_NAMES if llama else ALSO).items()}
    other["rope"] = next((name for name in _ROPE if name in values), _ROPE[0])
    result = []
    for name, (unit, meaning) in (LLAMA_MEANING if llama else MEANING).items():
        given = name if name in values else other.get(name, name)
        raw = getattr(config, name)
        value = str(raw) if isinstance(raw, Rope) else one_line(raw)
        if name == "n_inner" and raw is None:
            value = f"empty: {config.mlp_dim:,}"
        elif unit.startswith("of "):
            value = percent(raw)
        source = "default" if given not in values else "config.json" if given == name else given
        result.append(Field(name, f"{value} {unit}".strip(), meaning, source))
    result += (
        Field(name, one_line(values[name]), f"{meaning} Another value is refused.", "config.json")
        for name, meaning in _DEMANDED.items()
        if name in values
    )
    return result


def sizes(config: ModelConfig) -> list[Field]:
    """Sizes that follow from the fields; a Llama's config has them itself."""
    if isinstance(config, LlamaConfig):
        return []
    return [
        Field("hs", f"{config.head_dim:,} channels", "Of one head: n_embd / n_head.", "computed"),
        Field("F", f"{config.mlp_dim:,} channels", "Inside of the MLP.", "computed"),
    ]


def other_fields(config: ModelConfig, values: Mapping[str, Any]) -> dict[str, str]:
    """The file's other fields, which gpt2viz doesn't read, and their values."""
    of_llama = {*LLAMA_MEANING, *LLAMA_NAMES, *LLAMA_FIXED, *_ROPE, "use_sliding_window"}
    of_family = of_llama if isinstance(config, LlamaConfig) else {*MEANING, *ALSO, *FIXED}
    read = {"model_type", *of_family}
    return {shorten(name, 60): one_line(v) for name, v in values.items() if name not in read}


def one_line(value: Any) -> str:
    """A value of a JSON file as one short line."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(" ".join(text.split()), 120)
