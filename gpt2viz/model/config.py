"""The sizes and options of one GPT-2, read from a checkpoint's ``config.json``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from gpt2viz.errors import CheckpointError

ACTIVATIONS = (
    *("gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh"),  # the same curve
    *("gelu", "gelu_python"),
    *("relu", "silu", "swish", "tanh"),
)

#: The token between two texts in GPT-2's training.
END_OF_TEXT = b"<|endoftext|>"

# Switches of the Hugging Face implementation that change the arithmetic, with the only values
# that this model computes. A checkpoint that sets another one is refused, never approximated.
# reorder_and_upcast_attn is none of them: it asks for float32, in which everything runs here.
FIXED: Mapping[str, tuple[Any, ...]] = {
    "scale_attn_weights": (True,),
    "add_cross_attention": (False,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
# A size with more digits is no slip, and a message could not spell it.
_ABSURD = 10**40
# Names that Hugging Face's library reads as well.
ALSO = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


class ModelConfig:
    """The sizes that every family has, under the names of GPT-2's ``config.json``."""

    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    tie_word_embeddings: bool

    @property
    def n_kv_head(self) -> int:
        """Groups of heads that share keys and values: as many as heads where none do."""
        return self.n_head

    @property
    def head_dim(self) -> int:
        """Channels of one head: hs = C / nh."""
        return self.n_embd // self.n_head

    @property
    def mlp_dim(self) -> int:
        """Channels inside the MLP: F."""
        raise NotImplementedError

    def layer_divisor(self, layer: int) -> int:
        """The divisor of the scores of ``layer``, from 0, besides √hs: 1 in most models."""
        return 1


@dataclass(frozen=True)
class GPT2Config(ModelConfig):
    """Field names and defaults are those of GPT-2's ``config.json``.

    Raises ``CheckpointError`` for anything that this model can't compute.
    """

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        for name in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head"):
            _require(self, name, "a positive whole number", _is_size)
        _require(self, "n_inner", "a positive whole number or null", _is_size_or_none)
        for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop"):
            _require(self, name, "a number from 0 to 1", lambda x: _is_number(x) and 0 <= x <= 1)
        _require(self, "layer_norm_epsilon", "a positive number", lambda x: _is_number(x) and x > 0)
        _require(self, "initializer_range", "a number from 0", lambda x: _is_number(x) and x >= 0)
        for name in ("tie_word_embeddings", "scale_attn_by_inverse_layer_idx"):
            _require(self, name, "true or false", lambda x: isinstance(x, bool))
        if self.n_embd % self.n_head:
            raise CheckpointError(
                f"config.json: n_embd ({self.n_embd}) must be a multiple of "
                f"n_head ({self.n_head}), so that every head has the same size"
            )
        if self.activation_function not in ACTIVATIONS:
            raise CheckpointError(
                f"config.json: activation_function {self.activation_function!r:.60} is not one of "
                f"{', '.join(ACTIVATIONS)}"
            )

    @property
    def mlp_dim(self) -> int:
        """Channels inside the MLP: ``n_inner``, or 4 C where the file leaves it out."""
        return 4 * self.n_embd if self.n_inner is None else self.n_inner

    def layer_divisor(self, layer: int) -> int:
        """The divisor of the scores of ``layer``, from 0, besides √hs: 1 in most models."""
        return layer + 1 if self.scale_attn_by_inverse_layer_idx else 1

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GPT2Config:
        """Read the fields that matter from a parsed ``config.json``; ignore the others."""
        model_type = values.get("model_type", "gpt2")
        if model_type != "gpt2":
            raise CheckpointError(
                f"config.json: model_type is {model_type!r:.60}; only 'gpt2' can be read"
            )
        for name, supported in FIXED.items():
            if values.get(name, supported[0]) not in supported:
                raise CheckpointError(
                    f"config.json: {name} = {values[name]!r:.60} is not supported "
                    f"(this model computes {supported[0]!r})"
                )
        for also, name in ALSO.items():
            if also in values and values.get(name, values[also]) != values[also]:
                raise CheckpointError(
                    f"config.json: {name} = {values[name]!r:.60} and {also} = "
                    f"{values[also]!r:.60} are two names of one size; keep the right one"
                )
        values = {ALSO.get(name, name): value for name, value in values.items()}
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


def _require(config: GPT2Config, name: str, what: str, holds: Callable[[Any], bool]) -> None:
    value = getattr(config, name)
    if not holds(value):
        raise CheckpointError(f"config.json: {name} must be {what}, not {value!r:.60}")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _ABSURD


def _is_size_or_none(value: Any) -> bool:
    return value is None or _is_size(value)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # neither NaN nor a huge integer is
