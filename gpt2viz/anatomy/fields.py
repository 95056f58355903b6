"""The meaning of every field of ``config.json``, a sentence each, and those that nothing reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpt2viz.labels import shorten
from gpt2viz.model.config import ALSO, FIXED, ModelConfig

#: Field -> (unit, meaning), of all that ``ModelConfig`` has.
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
        "Whether the head reads the token table backwards or has a table of its own.",
    ),
    "embd_pdrop": ("of the numbers", "Set to 0 by chance after the embeddings; only in training."),
    "attn_pdrop": ("of the weights", "Set to 0 by chance in attention; only in training."),
    "resid_pdrop": (
        "of the numbers",
        "Set to 0 by chance before each addition to the stream; only in training.",
    ),
    "initializer_range": ("", "How far the first weights were spread; only before training."),
}

#: Read too, because another value would be another model, which is refused.
_DEMANDED: Mapping[str, str] = {
    "model_type": "The family of the model.",
    "scale_attn_weights": "Scores are divided by √hs.",
    "add_cross_attention": "No attention to a second text.",
    "pruned_heads": "No head was taken out.",
    "quantization_config": "Weights are stored as plain numbers.",
}


@dataclass(frozen=True)
class Field:
    """One field: its value as it is read, with its unit, and where it stands.

    ``source`` is "config.json", or "default" where the file leaves the field out.
    """

    name: str
    value: str
    meaning: str
    source: str


def explained(config: ModelConfig, values: Mapping[str, Any]) -> list[Field]:
    """Every field that counts. ``values`` is the file's content, ``config`` is made from it."""
    other = {name: also for also, name in ALSO.items()}
    result = []
    for name, (unit, meaning) in MEANING.items():
        if not hasattr(config, name):
            continue
        given = name if name in values else other.get(name, name)
        value = written(getattr(config, name))
        if name == "n_inner" and getattr(config, name) is None:
            value = f"empty: {config.mlp_dim:,}"
        elif unit.startswith("of "):
            value = f"{getattr(config, name):.0%}"
        source = "default" if given not in values else "config.json"
        also = f" The file calls it {given}." if given != name and given in values else ""
        result.append(Field(name, f"{value} {unit}".strip(), meaning + also, source))
    result += (
        Field(name, written(values[name]), f"{meaning} Another value is refused.", "config.json")
        for name, meaning in _DEMANDED.items()
        if name in values
    )
    return result


def derived(config: ModelConfig) -> list[Field]:
    """Sizes that follow from the fields."""
    return [
        Field("hs", f"{config.head_dim:,} channels", "Of one head: n_embd / n_head.", "computed"),
        Field("F", f"{config.mlp_dim:,} channels", "Inside of the MLP.", "computed"),
    ]


def unused(values: Mapping[str, Any]) -> dict[str, str]:
    """The file's other fields, which gpt2viz doesn't read, and their values."""
    read = {*MEANING, *ALSO, *FIXED, *_DEMANDED}
    return {shorten(name, 60): written(v) for name, v in values.items() if name not in read}


def written(value: Any) -> str:
    """A value of a JSON file as one short line."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(" ".join(text.split()), 120)
