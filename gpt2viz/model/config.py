"""The sizes and options of a model, read from a checkpoint's ``config.json``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

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
# reorder_and_upcast_attn isn't one of them: it asks for float32, and everything here is float32.
FIXED: Mapping[str, tuple[Any, ...]] = {
    "scale_attn_weights": (True,),
    "add_cross_attention": (False,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
# The switches of Llama's family, likewise.
LLAMA_FIXED: Mapping[str, tuple[Any, ...]] = {
    "quantization_config": (None,),
    "pretraining_tp": (1, None),
    "partial_rotary_factor": (1.0, None),
}
# Other names of sizes that Hugging Face's library accepts in a GPT-2's config …
ALSO = {
    "max_position_embeddings": "n_positions",
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
}
# … and with them Llama's names of all sizes that have GPT-2's names here.
LLAMA_NAMES = ALSO | {"num_key_value_heads": "n_kv_head", "intermediate_size": "mlp_dim"}
# transformers' defaults where the file has no number; other families then have no groups.
_KV_HEADS = {"mistral": 8, "qwen2": 32, "qwen3": 32}
_ROPE_NAMES = {
    "rope_theta": "base",
    "factor": "factor",
    "low_freq_factor": "low",
    "high_freq_factor": "high",
    "original_max_position_embeddings": "original",
}
# The kinds of RoPE, and the fields that each needs besides a base.
_ROPE_KINDS = {"default": (), "linear": ("factor",), "llama3": tuple(_ROPE_NAMES)[1:]}
_WRITTEN = {name: written for written, name in LLAMA_NAMES.items()}
_LAYER_TYPES = ("full_attention", "sliding_attention")
# A size with more digits is no typo, and a message couldn't print it.
_ABSURD = 10**40


@dataclass(frozen=True)
class GPT2Config:
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
            _require(self, name, "true or false", _is_switch)
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

    attention_bias: ClassVar[bool] = True
    qkv_bias: ClassVar[bool] = True
    embedding_name: ClassVar[str] = "wte.weight"

    @property
    def n_kv_head(self) -> int:
        """The number of heads: none share keys and values."""
        return self.n_head

    @property
    def head_dim(self) -> int:
        """Channels of one head: hs = C / nh."""
        return self.n_embd // self.n_head

    @property
    def mlp_dim(self) -> int:
        """Channels inside the MLP: ``n_inner``, or 4 C where the file leaves it out."""
        return 4 * self.n_embd if self.n_inner is None else self.n_inner

    def layer_divisor(self, layer: int) -> int:
        """The divisor of the scores of ``layer``, from 0, besides √hs: 1 in most models."""
        return layer + 1 if self.scale_attn_by_inverse_layer_idx else 1

    def window(self, layer: int) -> None:
        """None: a query sees every key that the mask leaves it."""

    def group_of(self, head: int) -> int:
        """The head itself: its keys and values are its own."""
        return head

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and size of every tensor, as the released files store them."""
        C, F = self.n_embd, self.mlp_dim
        layer = {
            "ln_1.weight": (C,),
            "ln_1.bias": (C,),
            "attn.c_attn.weight": (C, 3 * C),
            "attn.c_attn.bias": (3 * C,),
            "attn.c_proj.weight": (C, C),
            "attn.c_proj.bias": (C,),
            "ln_2.weight": (C,),
            "ln_2.bias": (C,),
            "mlp.c_fc.weight": (C, F),
            "mlp.c_fc.bias": (F,),
            "mlp.c_proj.weight": (F, C),
            "mlp.c_proj.bias": (C,),
        }
        yield "wte.weight", (self.vocab_size, C)
        yield "wpe.weight", (self.n_positions, C)
        for i in range(self.n_layer):
            yield from ((f"h.{i}.{name}", size) for name, size in layer.items())
        yield from (("ln_f.weight", (C,)), ("ln_f.bias", (C,)))
        yield "lm_head.weight", (self.vocab_size, C)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GPT2Config:
        """Read the fields that matter from a parsed ``config.json``; ignore the others."""
        if (model_type := values.get("model_type", "gpt2")) != "gpt2":
            raise CheckpointError(f"config.json: model_type is {model_type!r:.60}, not 'gpt2'")
        _refuse(values, FIXED)
        for also, name in ALSO.items():
            if also in values and values.get(name, values[also]) != values[also]:
                raise CheckpointError(
                    f"config.json: {name} = {values[name]!r:.60} and {also} = "
                    f"{values[also]!r:.60} are two names of one size; keep the right one"
                )
        values = {ALSO.get(name, name): value for name, value in values.items()}
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True)
class Rope:
    """The speeds at which RoPE turns queries and keys (Su et al. 2021), as in config.json.

    Pair i of hs / 2 turns by base^(−2i/hs) radians per position. ``kind`` "linear" divides that by
    ``factor``; "llama3" does so where a full turn takes more than ``original`` / ``low`` positions,
    not where it takes less than ``original`` / ``high``, and interpolates in between.
    """

    base: float = 10_000.0
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: float = 8192

    def __str__(self) -> str:
        given = (f"{name} {getattr(self, _ROPE_NAMES[name]):g}" for name in _ROPE_KINDS[self.kind])
        return ", ".join([self.kind, f"base {self.base:,g}", *given])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rope:
        """Read ``rope_parameters``, or ``rope_theta`` and ``rope_scaling``, as in older files.

        Raises ``CheckpointError`` for another kind, and for values that aren't numbers.
        """
        scaling = values.get("rope_parameters") or values.get("rope_scaling") or {}
        _check("rope_scaling", scaling, "an object", lambda x: isinstance(x, Mapping))
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind not in [*_ROPE_KINDS]:  # it may be a list, which isn't hashable
            raise CheckpointError(
                f"config.json: rope_type {kind!r:.60} is not supported; there are: "
                f"{', '.join(_ROPE_KINDS)}"
            )
        of_layers = dict.fromkeys(_LAYER_TYPES, (None,))  # speeds by type of layer
        _refuse(scaling, {"partial_rotary_factor": (1.0, None), **of_layers})
        bases = scaling.get("rope_theta"), values.get("rope_theta"), cls.base
        given: dict[str, Any] = {
            "rope_theta": next(base for base in bases if base is not None),
            **{name: scaling.get(name) for name in _ROPE_KINDS[kind]},
        }
        for name, value in given.items():
            _check(name, value, "a positive number", lambda x: _is_number(x) and x > 0)
        return cls(kind=kind, **{_ROPE_NAMES[name]: value for name, value in given.items()})


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes and switches of a model of Llama's family: llama, mistral, qwen2 or qwen3.

    Sizes have GPT-2's names, all other fields those of ``config.json``, and ``family`` is its
    ``model_type``. Raises ``CheckpointError`` for anything that can't be computed here.
    """

    family: str
    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    n_kv_head: int
    head_dim: int
    mlp_dim: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    rope: Rope = Rope()
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    sliding_window: int | None = None
    max_window_layers: int = 28
    layer_types: tuple[str, ...] | None = None

    embedding_name: ClassVar[str] = "embed_tokens.weight"

    def __post_init__(self) -> None:
        for name in ("vocab_size", *LLAMA_NAMES.values(), "head_dim"):
            _require(self, name, "a positive whole number", _is_size)
        _require(self, "max_window_layers", "a whole number", lambda x: _is_size(x) or x == 0)
        _require(self, "sliding_window", "a positive whole number or null", _is_size_or_none)
        _require(self, "rms_norm_eps", "a positive number", lambda x: _is_number(x) and x > 0)
        for name in ("attention_bias", "mlp_bias", "tie_word_embeddings"):
            _require(self, name, "true or false", _is_switch)
        _require(self, "hidden_act", f"one of {', '.join(ACTIVATIONS)}", ACTIVATIONS.__contains__)
        _require(self, "head_dim", "even, as RoPE turns pairs of channels", lambda x: x % 2 == 0)
        if self.n_head % self.n_kv_head:
            raise CheckpointError(
                f"config.json: num_attention_heads ({self.n_head}) must be a multiple of "
                f"num_key_value_heads ({self.n_kv_head}), so that every group has as many heads"
            )
        if self.layer_types is not None and (
            len(self.layer_types) != self.n_layer or not {*self.layer_types} <= {*_LAYER_TYPES}
        ):
            raise CheckpointError(
                f"config.json: layer_types must name each of {self.n_layer} layers "
                f"{' or '.join(_LAYER_TYPES)}"
            )

    @property
    def qkv_bias(self) -> bool:
        """True where queries, keys and values have biases."""
        return self.attention_bias or self.family == "qwen2"

    @property
    def qk_norm(self) -> bool:
        """True where each head's queries and keys go through an RMSNorm before they are rotated."""
        return self.family == "qwen3"

    def layer_divisor(self, layer: int) -> int:
        """1: scores are divided by √hs alone."""
        return 1

    def window(self, layer: int) -> int | None:
        """The most keys that a query of ``layer`` sees, itself included; None for all."""
        if self.layer_types is None:
            return self.sliding_window if layer >= self.max_window_layers else None
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None

    def group_of(self, head: int) -> int:
        """The group of heads that a head is in, whose keys and values it reads, from 0."""
        return head * self.n_kv_head // self.n_head

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and size of every tensor, as the released files store them."""
        C, F, hs = self.n_embd, self.mlp_dim, self.head_dim
        of_heads = {"q": self.n_head * hs, "k": self.n_kv_head * hs, "v": self.n_kv_head * hs}
        attention = {
            f"self_attn.{n}_proj": ((n_out, C), self.qkv_bias) for n, n_out in of_heads.items()
        }
        linear = attention | {
            "self_attn.o_proj": ((C, self.n_head * hs), self.attention_bias),
            "mlp.gate_proj": ((F, C), self.mlp_bias),
            "mlp.up_proj": ((F, C), self.mlp_bias),
            "mlp.down_proj": ((C, F), self.mlp_bias),
        }
        yield self.embedding_name, (self.vocab_size, C)
        for i in range(self.n_layer):
            for name, (size, biased) in linear.items():
                yield f"layers.{i}.{name}.weight", size
                if biased:
                    yield f"layers.{i}.{name}.bias", size[:1]
            if self.qk_norm:
                yield from ((f"layers.{i}.self_attn.{n}_norm.weight", (hs,)) for n in "qk")
            for name in ("input_layernorm", "post_attention_layernorm"):
                yield f"layers.{i}.{name}.weight", (C,)
        yield "norm.weight", (C,)
        yield "lm_head.weight", (self.vocab_size, C)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LlamaConfig:
        """Read the fields that matter from a parsed ``config.json``; ignore the others."""
        family = values["model_type"]
        _refuse(values, LLAMA_FIXED)
        renamed = {LLAMA_NAMES.get(name, name): value for name, value in values.items()}
        given: dict[str, Any] = {
            field.name: None if field.default is MISSING else field.default for field in fields(cls)
        }
        given |= {name: renamed[name] for name in given if name in renamed}
        C, n_head = given["n_embd"], given["n_head"]
        groups = renamed.get("n_kv_head", _KV_HEADS.get(family))
        given["n_kv_head"] = n_head if groups is None else groups
        if given["head_dim"] is None:
            even = _is_size(C) and _is_size(n_head) and C % n_head == 0
            given["head_dim"] = 128 if family == "qwen3" else C // n_head if even else None
        if family in ("llama", "mistral"):  # without layers of their own
            given |= {"layer_types": None, "max_window_layers": 0}
        switch = values.get("use_sliding_window", False)
        _check("use_sliding_window", switch, "true or false", _is_switch)
        windowed = family == "mistral" or (family != "llama" and switch)
        given["sliding_window"] = values.get("sliding_window", 4096) if windowed else None
        if given["layer_types"] is not None:
            _check("layer_types", given["layer_types"], "a list", lambda x: isinstance(x, list))
            given["layer_types"] = tuple(map(str, given["layer_types"]))
        return cls(**given | {"family": family, "rope": Rope.from_dict(values)})


#: The config of a model of any family.
ModelConfig = GPT2Config | LlamaConfig


def sharing(config: ModelConfig, head: int) -> list[int]:
    """The other heads of a layer that share this one's keys and values."""
    group = config.group_of(head)
    return [n for n in range(config.n_head) if n != head and config.group_of(n) == group]


_FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "qwen3")


def config_from(values: Mapping[str, Any]) -> ModelConfig:
    """The config of a model of any family, from a parsed ``config.json``.

    Raises ``CheckpointError`` for another ``model_type``, and where the family's config does.
    """
    model_type = values.get("model_type", "gpt2")
    if model_type not in _FAMILIES:
        raise CheckpointError(
            f"config.json: model_type is {model_type!r:.60}; these can be read: "
            f"{', '.join(_FAMILIES)}"
        )
    family = GPT2Config if model_type == "gpt2" else LlamaConfig
    return family.from_dict(values)


def _refuse(values: Mapping[str, Any], fixed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise ``CheckpointError`` for a switch with a value that can't be computed."""
    for name, supported in fixed.items():
        if values.get(name, supported[0]) not in supported:
            raise CheckpointError(
                f"config.json: {name} = {values[name]!r:.60} is not supported "
                f"(this model computes {supported[0]!r})"
            )


def _require(config: ModelConfig, name: str, what: str, holds: Callable[[Any], bool]) -> None:
    written = _WRITTEN.get(name, name) if isinstance(config, LlamaConfig) else name
    _check(written, getattr(config, name), what, holds)


def _check(name: str, value: Any, what: str, holds: Callable[[Any], bool]) -> None:
    if not holds(value):
        raise CheckpointError(f"config.json: {name} must be {what}, not {value!r:.60}")


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _ABSURD


def _is_size_or_none(value: Any) -> bool:
    return value is None or _is_size(value)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # neither NaN nor a huge integer is
