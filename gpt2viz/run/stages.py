"""The graph of a run: each tensor, what it is computed from, its names and its descriptions.

Hooks, shape table, axis titles, pictures, the page Head, the diagram of the model, the docs' tables
and other tools' names all read this list. To show another tensor, add a tap in ``network.py``, or
``llama.py``, and one stage here.

The last two axes of the (T, T) stages are query (rows) and key (columns).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, SupportsIndex, cast

from gpt2viz.errors import PlaceError, StageError
from gpt2viz.model.config import ModelConfig

#: "unit" runs over [0, 1], "amount" from 0 up, "signed" to both sides of 0.
Scale = Literal["signed", "unit", "amount"]


#: The stages that have a number for every query and key …
PairStageName = Literal["scores", "scaled_scores", "masked_scores", "weights"]
#: … the eight stages of one head …
HeadStageName = Literal["q", "k", "v", PairStageName, "head_output"]
#: … queries and keys before their own norm, and before RoPE turns them, in Llama's family …
UnrotatedStageName = Literal["q_unnormed", "k_unnormed", "q_unrotated", "k_unrotated"]
#: … and every tensor of a run. A trace has only the shape of some: see ``Stage.keep``.
StageName = Literal[
    HeadStageName,
    UnrotatedStageName,
    "token_embedding",
    "position_embedding",
    "embedding",
    "ln_1",
    "qkv",
    "projected",
    "attention_output",
    "residual_mid",
    "ln_2",
    "mlp_in",
    "mlp_gate",
    "mlp_act",
    "mlp_up",
    "mlp_product",
    "mlp_projected",
    "mlp_output",
    "residual_out",
    "final_norm",
    "last_logits",
]

#: A stage and the layer that made it, None outside the layers.
Site = tuple[StageName, int | None]

#: What the letters of the axes mean.
AXES: Mapping[str, str] = MappingProxyType(
    {
        "B": "texts at once",
        "T": "tokens",
        "C": "channels of the residual stream (n_embd)",
        "3C": "channels of Q, K and V together",
        "nh": "heads of a layer (n_head)",
        "nkv": "groups of heads that share keys and values (n_kv_head)",
        "hs": "channels of one head",
        "F": "channels inside the MLP",
        "n_vocab": "entries of the vocabulary",
    }
)


#: A stage's role in attention: queries are matched with keys to weight values.
Role = Literal["", "query", "key", "value"]
_COLORS = {"query": "blue", "key": "orange", "value": "green"}

_STREAM = ("B", "T", "C")
_HEAD = ("B", "nh", "T", "hs")
_GROUP = ("B", "nkv", "T", "hs")
_WIDE = ("B", "T", "F")
_PAIRS = ("B", "nh", "T", "T")


@dataclass(frozen=True)
class Stage:
    """One tensor of the forward pass.

    ``module`` is the module that outputs it in GPT-2, and ``llama`` in Llama's family; * is the
    layer's number, and "" means that the family lacks it or computes it in another way. ``reads``
    are the keys of the stages that it is computed from: "residual_in" is the stream before the
    layer, and outside the layers "residual_out" is the last one's.
    ``scale`` says what its numbers mean: "unit" in [0, 1], "signed" around zero. ``role`` is
    that of its rows in attention, and ``masked`` its number for hidden keys, if that shows them.
    ``keep`` is True if the trace has its numbers; of other stages it has only the shape.
    ``hook`` is TransformerLens' hook point of the same numbers, within a layer's block for a
    per-layer stage; "" for none.
    """

    key: StageName
    label: str
    formula: str
    module: str
    reads: tuple[str, ...] = ()
    axes: tuple[str, ...] = _STREAM
    scale: Scale = "signed"
    role: Role = ""
    masked: str = ""
    keep: bool = True
    hook: str = ""
    llama: str = ""

    @property
    def per_layer(self) -> bool:
        """True where every layer makes one."""
        return "*" in (self.module or self.llama)

    @property
    def of_head(self) -> bool:
        """True where every head has one, of its own or with its group."""
        return not {"nh", "nkv"}.isdisjoint(self.axes)

    @property
    def of_group(self) -> bool:
        """True where heads share it."""
        return "nkv" in self.axes

    @property
    def of_pairs(self) -> bool:
        """True where it has a number for every query and key."""
        return self.axes[-1] == "T"

    @property
    def color(self) -> str:
        """The color of its letter in texts, Q, K or V; "" if it has none."""
        return _COLORS.get(self.role, "")

    @property
    def quantity(self) -> str:
        """The name of one of its numbers."""
        if self.of_pairs:
            return "attention weight" if self.scale == "unit" else "score"
        return "value"

    def path(self, layer: int | None) -> str:
        """The name of the module that outputs it, in ``layer`` if it is a per-layer stage."""
        return self.module.replace("*", str(layer))

    def in_transformer_lens(self, layer: object) -> str:
        """Its name in TransformerLens; "" if that has no hook point for these numbers.

        Where two hook points have the same numbers, it is named after the layer that made them.
        """
        return f"blocks.{layer}.{self.hook}" if self.hook and self.per_layer else self.hook


def _family_pair(stage: Stage, llama: str, **others: Any) -> tuple[Stage, Stage]:
    """Return GPT-2's stage and its counterpart in Llama's family, with ``others`` as its fields."""
    return stage, replace(stage, module="", llama=llama, **others)


_ALL: tuple[Stage, ...] = (
    *_family_pair(
        Stage("token_embedding", "Token embedding", "wte[id]", "wte", hook="hook_embed"),
        "embed_tokens",
        formula="embed_tokens[id]",
    ),
    Stage(
        "position_embedding",
        "Position embedding",
        "wpe[0 … T−1]",
        "wpe",
        axes=("T", "C"),
        hook="hook_pos_embed",
    ),
    *_family_pair(
        Stage(
            "embedding",
            "Residual stream at the start",
            "token + position",
            "drop",
            ("token_embedding", "position_embedding"),
            hook="blocks.0.hook_resid_pre",
        ),
        "start",
        formula="token",
        reads=("token_embedding",),
    ),
    *_family_pair(
        Stage(
            "ln_1", "LayerNorm before attention", "LN(x)", "h.*.ln_1", ("residual_in",), keep=False
        ),
        "layers.*.input_layernorm",
        label="RMSNorm before attention",
        formula="RMSNorm(x)",
    ),
    Stage(
        "qkv",
        "Q, K and V in one",
        "x·W + b",
        "h.*.attn.c_attn",
        ("ln_1",),
        ("B", "T", "3C"),
        keep=False,
    ),
    Stage(
        "q",
        "Queries Q",
        "x·W_Q + b_Q",
        "h.*.attn.q",
        ("qkv",),
        _HEAD,
        role="query",
        hook="attn.hook_q",
    ),
    Stage(
        "k",
        "Keys K",
        "x·W_K + b_K",
        "h.*.attn.k",
        ("qkv",),
        _HEAD,
        role="key",
        hook="attn.hook_k",
    ),
    Stage(
        "q_unnormed",
        "Queries before their norm",
        "x·W_Q",
        "",
        ("ln_1",),
        _HEAD,
        role="query",
        hook="attn.hook_q",
        llama="layers.*.self_attn.q_unnormed",
    ),
    Stage(
        "k_unnormed",
        "Keys before their norm",
        "x·W_K",
        "",
        ("ln_1",),
        _GROUP,
        role="key",
        hook="attn.hook_k",
        llama="layers.*.self_attn.k_unnormed",
    ),
    Stage(
        "q_unrotated",
        "Queries before their turn",
        "x·W_Q",
        "",
        ("ln_1",),
        _HEAD,
        role="query",
        hook="attn.hook_q",
        llama="layers.*.self_attn.q_unrotated",
    ),
    Stage(
        "q_unrotated",
        "Queries before their turn",
        "RMSNorm(q)",
        "",
        ("q_unnormed",),
        _HEAD,
        role="query",
        llama="layers.*.self_attn.q_norm",
    ),
    Stage(
        "k_unrotated",
        "Keys before their turn",
        "x·W_K",
        "",
        ("ln_1",),
        _GROUP,
        role="key",
        hook="attn.hook_k",
        llama="layers.*.self_attn.k_unrotated",
    ),
    Stage(
        "k_unrotated",
        "Keys before their turn",
        "RMSNorm(k)",
        "",
        ("k_unnormed",),
        _GROUP,
        role="key",
        llama="layers.*.self_attn.k_norm",
    ),
    Stage(
        "q",
        "Queries Q, turned",
        "R(t)·q",
        "",
        ("q_unrotated",),
        _HEAD,
        role="query",
        hook="attn.hook_rot_q",
        llama="layers.*.self_attn.q",
    ),
    Stage(
        "k",
        "Keys K, turned",
        "R(t)·k",
        "",
        ("k_unrotated",),
        _GROUP,
        role="key",
        hook="attn.hook_rot_k",
        llama="layers.*.self_attn.k",
    ),
    *_family_pair(
        Stage(
            "v",
            "Values V",
            "x·W_V + b_V",
            "h.*.attn.v",
            ("qkv",),
            _HEAD,
            role="value",
            hook="attn.hook_v",
        ),
        "layers.*.self_attn.v",
        formula="x·W_V",
        reads=("ln_1",),
        axes=_GROUP,
    ),
    Stage(
        "scores",
        "Raw scores",
        "Q·Kᵀ",
        "h.*.attn.attend.scores",
        ("q", "k"),
        _PAIRS,
        llama="layers.*.self_attn.attend.scores",
    ),
    Stage(
        "scaled_scores",
        "Scaled scores",
        "Q·Kᵀ / √hs",
        "h.*.attn.attend.scaled_scores",
        ("scores",),
        _PAIRS,
        llama="layers.*.self_attn.attend.scaled_scores",
    ),
    Stage(
        "masked_scores",
        "Masked scores",
        "−∞ for later keys",
        "h.*.attn.attend.masked_scores",
        ("scaled_scores",),
        _PAIRS,
        masked="−∞",
        hook="attn.hook_attn_scores",
        llama="layers.*.self_attn.attend.masked_scores",
    ),
    Stage(
        "weights",
        "Attention weights",
        "softmax",
        "h.*.attn.attend.weights",
        ("masked_scores",),
        _PAIRS,
        "unit",
        masked="exactly 0",
        hook="attn.hook_pattern",
        llama="layers.*.self_attn.attend.weights",
    ),
    Stage(
        "head_output",
        "Head output",
        "weights·V",
        "h.*.attn.attend.head_output",
        ("weights", "v"),
        _HEAD,
        hook="attn.hook_z",
        llama="layers.*.self_attn.attend.head_output",
    ),
    Stage(
        "projected",
        "Heads merged and projected",
        "concat(heads)·W_O + b_O",
        "h.*.attn.c_proj",
        ("head_output",),
        keep=False,
    ),
    *_family_pair(
        Stage(
            "attention_output",
            "Attention's addition",
            "after dropout (off)",
            "h.*.attn",
            ("projected",),
            hook="hook_attn_out",
        ),
        "layers.*.self_attn.o_proj",
        formula="concat(heads)·W_O",
        reads=("head_output",),
    ),
    Stage(
        "residual_mid",
        "Stream after attention",
        "x + attention",
        "h.*.residual_mid",
        ("residual_in", "attention_output"),
        hook="hook_resid_mid",
        llama="layers.*.residual_mid",
    ),
    *_family_pair(
        Stage(
            "ln_2",
            "LayerNorm before the MLP",
            "LN(x)",
            "h.*.ln_2",
            ("residual_mid",),
            keep=False,
        ),
        "layers.*.post_attention_layernorm",
        label="RMSNorm before the MLP",
        formula="RMSNorm(x)",
    ),
    Stage(
        "mlp_in",
        "MLP, widened",
        "x·W + b",
        "h.*.mlp.c_fc",
        ("ln_2",),
        _WIDE,
        keep=False,
    ),
    Stage(
        "mlp_act",
        "MLP, activated",
        "f(x)",
        "h.*.mlp.act",
        ("mlp_in",),
        _WIDE,
        keep=False,
    ),
    Stage(
        "mlp_gate",
        "MLP, gate",
        "x·W_gate",
        "",
        ("ln_2",),
        _WIDE,
        keep=False,
        llama="layers.*.mlp.gate_proj",
    ),
    Stage(
        "mlp_act",
        "MLP, gate activated",
        "f(x)",
        "",
        ("mlp_gate",),
        _WIDE,
        keep=False,
        llama="layers.*.mlp.act_fn",
    ),
    Stage(
        "mlp_up",
        "MLP, widened",
        "x·W_up",
        "",
        ("ln_2",),
        _WIDE,
        keep=False,
        llama="layers.*.mlp.up_proj",
    ),
    Stage(
        "mlp_product",
        "MLP, gated",
        "gate · up",
        "",
        ("mlp_act", "mlp_up"),
        _WIDE,
        keep=False,
        llama="layers.*.mlp.product",
    ),
    Stage(
        "mlp_projected",
        "MLP, back to C",
        "x·W + b",
        "h.*.mlp.c_proj",
        ("mlp_act",),
        keep=False,
    ),
    *_family_pair(
        Stage(
            "mlp_output",
            "The MLP's addition",
            "after dropout (off)",
            "h.*.mlp",
            ("mlp_projected",),
            hook="hook_mlp_out",
        ),
        "layers.*.mlp.down_proj",
        formula="x·W_down",
        reads=("mlp_product",),
    ),
    Stage(
        "residual_out",
        "Stream after the layer",
        "x + MLP",
        "h.*.residual_out",
        ("residual_mid", "mlp_output"),
        hook="hook_resid_post",
        llama="layers.*.residual_out",
    ),
    *_family_pair(
        Stage(
            "final_norm",
            "Final LayerNorm",
            "LN(x)",
            "ln_f",
            ("residual_out",),
            hook="ln_final.hook_normalized",
        ),
        "norm",
        label="Final RMSNorm",
        formula="RMSNorm(x)",
    ),
    Stage(
        "last_logits",
        "Logits after the last token",
        "x·W_Eᵀ",
        "lm_head",
        ("final_norm",),
        ("B", "1", "n_vocab"),
        keep=False,
        llama="lm_head",
    ),
)

#: GPT-2's stages …
STAGES = tuple(stage for stage in _ALL if stage.module)
#: … by key …
GPT2_GRAPH: Mapping[str, Stage] = MappingProxyType({stage.key: stage for stage in STAGES})
#: … and with them those that other families alone have.
STAGE: Mapping[str, Stage] = MappingProxyType(
    {stage.key: next(s for s in _ALL if s.key == stage.key) for stage in _ALL}
)

#: The stages with a number for every query and key.
PAIR_STAGES = tuple(stage.key for stage in STAGES if stage.of_pairs)

#: The stages of one head that every family has, in the order in which they are computed.
HEAD_STAGES = cast(
    "tuple[HeadStageName, ...]", tuple(stage.key for stage in STAGES if stage.of_head)
)


def transformer_lens_names(graph: Mapping[str, Stage]) -> Mapping[str, StageName]:
    """``TRANSFORMER_LENS`` of a model with these stages."""
    names = {
        stage.in_transformer_lens("N").replace("blocks.0.", "blocks.N."): stage.key
        for stage in graph.values()
        if stage.hook
    }
    return MappingProxyType(names | {"blocks.N.hook_resid_pre": "residual_out"})


#: TransformerLens' names (Nanda & Bloom 2022), N a layer's number -> the stage's key. A name says
#: where the hook point is in its model, and a layer's ``hook_resid_pre`` is the output of the
#: layer before. The numbers match a model loaded by ``from_pretrained_no_processing``: otherwise
#: it folds LayerNorms and centres what is written to the stream. Shapes are ours: a head's stages
#: are (B, nh, T, hs), not (B, T, nh, hs).
TRANSFORMER_LENS = transformer_lens_names(GPT2_GRAPH)
_IN_LAYER = re.compile(r"blocks\.([0-9]{1,6})\.(.+)")


def from_transformer_lens(name: str, n_layer: int, graph: Mapping[str, Stage] = GPT2_GRAPH) -> Site:
    """Stage and layer of one of TransformerLens' names, such as "blocks.0.attn.hook_pattern".

    Raises ``StageError`` for what isn't one of the names of this ``graph``, and ``PlaceError`` for
    a layer that a model of ``n_layer`` layers doesn't have.
    """
    match, names = _IN_LAYER.fullmatch(name), transformer_lens_names(graph)
    key = names.get(f"blocks.N.{match[2]}" if match else name)
    if key is None or (match is None and name.startswith("blocks.")):
        known = " ".join(names)
        raise StageError(f"no {name!r:.80} in a trace; of TransformerLens' names: {known}")
    if match is None:
        return key, None
    check_layer(STAGE[key], layer := int(match[1]), n_layer)
    return stream_before(layer) if match[2] == "hook_resid_pre" else (key, layer)


def place_of(name: str, n_layer: int, graph: Mapping[str, Stage]) -> tuple[Stage, int | None]:
    """A stage and its layer from a name such as "weights.3" or "embedding".

    Or from one of TransformerLens', such as "blocks.3.attn.hook_pattern". Raises ``StageError`` for
    an unknown one, and ``PlaceError`` for a layer that a model of ``n_layer`` layers, or the stage,
    doesn't have.
    """
    if "hook_" in name:
        known, layer = from_transformer_lens(name, n_layer, graph)
        return graph[known], layer
    key, _, number = name.partition(".")
    if key not in graph or not re.fullmatch("[0-9]{0,6}", number):
        raise StageError(f"There is no stage {name!r:.80}. There are: {' '.join(graph)}.")
    stage, layer = graph[key], int(number) if number else None
    check_layer(stage, layer, n_layer)
    return stage, layer


def check_layer(stage: Stage, layer: int | None, n_layer: int) -> None:
    """Raise ``PlaceError`` for a layer that the stage, or a model of ``n_layer``, doesn't have."""
    if stage.per_layer != (layer is not None):
        needs = f"needs a layer, as in {stage.key}.0" if stage.per_layer else "belongs to no layer"
        raise PlaceError(f"stage {stage.key!r} {needs}")
    if layer is not None and not (isinstance(layer, SupportsIndex) and 0 <= layer < n_layer):
        raise PlaceError(f"no layer {layer}: this model has layers 0 to {n_layer - 1}")


def stream_before(layer: int) -> Site:
    """The stage that is the residual stream before a layer."""
    return ("residual_out", layer - 1) if layer else ("embedding", None)


def module_of(graph: Mapping[str, Stage], name: str, layer: int | None) -> str:
    """The module that outputs a stage; "residual_in" is the stream before the layer."""
    key, at = stream_before(layer or 0) if name == "residual_in" else (name, layer)
    return graph[key].path(at)


def graph_of(modules: Container[str]) -> Mapping[str, Stage]:
    """The stages of a model with these modules, by key.

    A stage that reads one which the model lacks reads that one's sources instead.
    """
    graph: dict[str, Stage] = {}
    lacking: dict[str, tuple[str, ...]] = {}
    for stage in _ALL:
        reads = tuple(key for read in stage.reads for key in lacking.get(read, (read,)))
        there = (name for name in (stage.module, stage.llama) if name.replace("*", "0") in modules)
        if here := next(filter(None, there), ""):
            graph[stage.key] = replace(stage, reads=reads, module=here, llama="")
            lacking.pop(stage.key, None)
        elif stage.key not in graph:
            lacking[stage.key] = reads
    return MappingProxyType(graph)


def module_names(
    n_layer: int, graph: Mapping[str, Stage] = GPT2_GRAPH
) -> Iterator[tuple[str, Stage, int | None]]:
    """(module name, stage, layer) for every tensor of a model of ``n_layer`` layers, in order."""
    for per_layer, stages in groupby(graph.values(), attrgetter("per_layer")):
        for layer, stage in product(range(n_layer) if per_layer else [None], stages):
            yield stage.path(layer), stage, layer


def masking(causal: bool, edited: bool) -> str:
    """Describe the masked scores of a run with the mask on, or with edits that hide keys."""
    hidden = ["later keys"] * causal + ["keys that an edit hides"] * edited
    return f"−∞ for {' and '.join(hidden)}" if hidden else "unchanged: mask off"


def formula(stage: Stage, config: ModelConfig, layer: int | None, masked: str = "") -> str:
    """The formula of a stage in a layer: with biases, a further divisor of scores, or a window.

    ``masked`` describes the masked scores, see ``masking``; by default, with the mask on.
    """
    if stage.key == "masked_scores":
        window = config.window(layer or 0)
        far = "" if window is None else f"; −∞ for keys {window} away or more"
        return (masked or stage.formula) + far
    if stage.formula in ("x·W_Q", "x·W_K", "x·W_V") and config.qkv_bias:
        return f"{stage.formula} + b_{stage.formula[-1]}"
    divisor = config.layer_divisor(layer or 0) if stage.key == "scaled_scores" else 1
    return stage.formula if divisor == 1 else f"{stage.formula} / {divisor}"


def axis_sizes(config: ModelConfig, n_tokens: int) -> dict[str, int]:
    """The size of every axis letter in one run, such as {"B": 1, "T": 4, "nh": 12, …}."""
    return {
        "B": 1,
        "T": n_tokens,
        "C": config.n_embd,
        "3C": 3 * config.n_embd,
        "F": config.mlp_dim,
        "nh": config.n_head,
        "nkv": config.n_kv_head,
        "hs": config.head_dim,
        "1": 1,
        "n_vocab": config.vocab_size,
    }
