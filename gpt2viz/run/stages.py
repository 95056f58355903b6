"""Every tensor that a run makes, declared once: what it is called, its axes, how it is drawn.

Hooks, shape table, axis titles and pictures all read this list. To show another tensor, add a
tap in ``network.py`` and one line here.

The last two axes of the (T, T) stages are query (rows) and key (columns).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from gpt2viz.errors import PlaceError, StageError
from gpt2viz.model.config import GPT2Config

#: "unit" runs over [0, 1], "amount" from 0 up, "signed" to both sides of 0.
Scale = Literal["signed", "unit", "amount"]


#: The stages that have a number for every query and key …
PairStageName = Literal["scores", "scaled_scores", "masked_scores", "weights"]
#: … the eight stages of one head …
HeadStageName = Literal["q", "k", "v", PairStageName, "head_output"]
#: … and all that a run makes; of some it keeps the shape alone: see ``Stage.kept``.
StageName = Literal[
    HeadStageName,
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
    "mlp_act",
    "mlp_projected",
    "mlp_output",
    "residual_out",
    "final_norm",
    "last_logits",
]

#: What the letters of the axes mean.
AXES: Mapping[str, str] = MappingProxyType(
    {
        "B": "texts at once",
        "T": "tokens",
        "C": "channels of the residual stream (n_embd)",
        "3C": "channels of Q, K and V together",
        "nh": "heads of a layer (n_head)",
        "hs": "channels of one head",
        "F": "channels inside the MLP",
        "n_vocab": "entries of the vocabulary",
    }
)


@dataclass(frozen=True)
class Stage:
    """One tensor of the forward pass.

    ``path`` is the module whose output it is; ``{layer}`` stands for the layer's number.
    ``scale`` says what its numbers mean: "unit" in [0, 1], "signed" around zero.
    ``kept`` stages have their numbers in the trace; of the others only the shape is kept.
    ``elsewhere`` is TransformerLens' hook point of the same numbers, N a layer's number, "" for
    none: see ``TRANSFORMER_LENS``.
    """

    key: StageName
    label: str
    formula: str
    path: str
    axes: tuple[str, ...]
    scale: Scale = "signed"
    kept: bool = True
    elsewhere: str = ""

    @property
    def quantity(self) -> str:
        """What one of its numbers is, in a word or two."""
        if self.key == "weights":
            return "attention weight"
        return "score" if "scores" in self.key else "value"

    @property
    def per_layer(self) -> bool:
        """True where every layer makes one of its own."""
        return "{layer}" in self.path


_STREAM = ("B", "T", "C")
_HEAD = ("B", "nh", "T", "hs")
_PAIRS = ("B", "nh", "T", "T")
_H = "h.{layer}."
_B = "blocks.N."

STAGES: tuple[Stage, ...] = (
    Stage("token_embedding", "Token embedding", "wte[id]", "wte", _STREAM, elsewhere="hook_embed"),
    Stage(
        "position_embedding",
        "Position embedding",
        "wpe[0 … T−1]",
        "wpe",
        ("T", "C"),
        elsewhere="hook_pos_embed",
    ),
    Stage(
        "embedding",
        "Residual stream at the start",
        "token + position",
        "drop",
        _STREAM,
        elsewhere="blocks.0.hook_resid_pre",
    ),
    Stage("ln_1", "LayerNorm before attention", "LN(x)", _H + "ln_1", _STREAM, kept=False),
    Stage("qkv", "Q, K and V in one", "x·W + b", _H + "attn.c_attn", ("B", "T", "3C"), kept=False),
    Stage("q", "Queries Q", "x·W_Q + b_Q", _H + "attn.q", _HEAD, elsewhere=_B + "attn.hook_q"),
    Stage("k", "Keys K", "x·W_K + b_K", _H + "attn.k", _HEAD, elsewhere=_B + "attn.hook_k"),
    Stage("v", "Values V", "x·W_V + b_V", _H + "attn.v", _HEAD, elsewhere=_B + "attn.hook_v"),
    Stage("scores", "Raw scores", "Q·Kᵀ", _H + "attn.attend.scores", _PAIRS),
    Stage("scaled_scores", "Scaled scores", "Q·Kᵀ / √hs", _H + "attn.attend.scaled_scores", _PAIRS),
    Stage(
        "masked_scores",
        "Masked scores",
        "−∞ for later keys",
        _H + "attn.attend.masked_scores",
        _PAIRS,
        elsewhere=_B + "attn.hook_attn_scores",
    ),
    Stage(
        "weights",
        "Attention weights",
        "softmax",
        _H + "attn.attend.weights",
        _PAIRS,
        "unit",
        elsewhere=_B + "attn.hook_pattern",
    ),
    Stage(
        "head_output",
        "Head output",
        "weights·V",
        _H + "attn.attend.head_output",
        _HEAD,
        elsewhere=_B + "attn.hook_z",
    ),
    Stage(
        "projected",
        "Heads merged and projected",
        "concat(heads)·W_O + b_O",
        _H + "attn.c_proj",
        _STREAM,
        kept=False,
    ),
    Stage(
        "attention_output",
        "Attention's addition",
        "after dropout (off)",
        _H + "attn",
        _STREAM,
        elsewhere=_B + "hook_attn_out",
    ),
    Stage(
        "residual_mid",
        "Stream after attention",
        "x + attention",
        _H + "residual_mid",
        _STREAM,
        elsewhere=_B + "hook_resid_mid",
    ),
    Stage("ln_2", "LayerNorm before the MLP", "LN(x)", _H + "ln_2", _STREAM, kept=False),
    Stage("mlp_in", "MLP, widened", "x·W + b", _H + "mlp.c_fc", ("B", "T", "F"), kept=False),
    Stage("mlp_act", "MLP, activated", "f(x)", _H + "mlp.act", ("B", "T", "F"), kept=False),
    Stage("mlp_projected", "MLP, back to C", "x·W + b", _H + "mlp.c_proj", _STREAM, kept=False),
    Stage(
        "mlp_output",
        "The MLP's addition",
        "after dropout (off)",
        _H + "mlp",
        _STREAM,
        elsewhere=_B + "hook_mlp_out",
    ),
    Stage(
        "residual_out",
        "Stream after the layer",
        "x + MLP",
        _H + "residual_out",
        _STREAM,
        elsewhere=_B + "hook_resid_post",
    ),
    Stage(
        "final_norm",
        "Final LayerNorm",
        "LN(x)",
        "ln_f",
        _STREAM,
        elsewhere="ln_final.hook_normalized",
    ),
    Stage(
        "last_logits",
        "Logits after the last token",
        "x·W_Eᵀ",
        "lm_head",
        ("B", "1", "n_vocab"),
        kept=False,
    ),
)

STAGE: Mapping[str, Stage] = MappingProxyType({stage.key: stage for stage in STAGES})

#: The stages with a number for every query and key.
PAIR_STAGES = tuple(stage.key for stage in STAGES if stage.axes == _PAIRS)

#: The eight stages of one head, in the order in which they are computed.
HEAD_STAGES: tuple[HeadStageName, ...] = (
    "q",
    "k",
    "v",
    "scores",
    "scaled_scores",
    "masked_scores",
    "weights",
    "head_output",
)


#: TransformerLens' names (Nanda & Bloom 2022), N a layer's number -> the stage's key. Its hook
#: points are named by where they stand in its model, and a layer's ``hook_resid_pre`` is what the
#: layer before left. The numbers are those that it has of a model loaded by
#: ``from_pretrained_no_processing``: otherwise it folds LayerNorms and centres what is written to
#: the stream. Shapes are ours: what a head has is (B, nh, T, hs), not (B, T, nh, hs).
TRANSFORMER_LENS: Mapping[str, str] = MappingProxyType(
    {
        stage.elsewhere.replace("blocks.0.", "blocks.N."): stage.key
        for stage in STAGES
        if stage.elsewhere
    }
    | {"blocks.N.hook_resid_pre": "residual_out"}
)
_IN_LAYER = re.compile(r"blocks\.([0-9]{1,6})\.(.+)")


def from_transformer_lens(name: str, n_layer: int) -> tuple[str, int | None]:
    """Stage and layer of one of TransformerLens' names, such as "blocks.0.attn.hook_pattern".

    Raises ``StageError`` for what isn't one of ``TRANSFORMER_LENS``, and ``PlaceError`` for a layer
    that a model of ``n_layer`` layers doesn't have.
    """
    match = _IN_LAYER.fullmatch(name)
    key = TRANSFORMER_LENS.get(f"blocks.N.{match[2]}" if match else name)
    if key is None or (match is None and name.startswith("blocks.")):
        known = " ".join(TRANSFORMER_LENS)
        raise StageError(f"no {name!r:.80} in a trace; of TransformerLens' names: {known}")
    if match is None:
        return key, None
    layer = int(match[1])
    if layer >= n_layer:
        raise PlaceError(f"no layer {layer}: this model has layers 0 to {n_layer - 1}")
    if match[2] == "hook_resid_pre":
        return (key, layer - 1) if layer else ("embedding", None)
    return key, layer


def in_transformer_lens(key: str, layer: int | None) -> str:
    """TransformerLens' name of a stage; "" where it has no hook point for these numbers.

    Of two names of the same numbers, that of the layer which made them.
    """
    return STAGE[key].elsewhere.replace("blocks.N.", f"blocks.{layer}.")


def place_of(name: str, n_layer: int) -> tuple[Stage, int | None]:
    """A stage and its layer from a name such as "weights.3" or "embedding".

    Or from one of TransformerLens', such as "blocks.3.attn.hook_pattern". Raises ``StageError`` for
    an unknown one, and ``PlaceError`` for a layer that a model of ``n_layer`` layers, or the stage,
    doesn't have.
    """
    if "hook_" in name:
        key, layer = from_transformer_lens(name, n_layer)
        return STAGE[key], layer
    key, _, number = name.partition(".")
    if key not in STAGE or not re.fullmatch("[0-9]{0,6}", number):
        raise StageError(f"There is no stage {name!r:.80}. There are: {' '.join(STAGE)}.")
    stage = STAGE[key]
    if stage.per_layer != bool(number):
        needs = f"needs a layer, as in {key}.0" if stage.per_layer else "belongs to no layer"
        raise PlaceError(f"{name!r}: stage {key} {needs}.")
    if number and int(number) >= n_layer:
        raise PlaceError(f"{name!r}: this model has layers 0 to {n_layer - 1}.")
    return stage, int(number) if number else None


def module_of(name: str, layer: int) -> str:
    """The module that puts a stage out; "residual_in" is the stream before the layer."""
    if name == "residual_in":
        return module_of("residual_out", layer - 1) if layer else STAGE["embedding"].path
    return STAGE[name].path.format(layer=layer)


@lru_cache(maxsize=16)
def places(n_layer: int) -> tuple[tuple[str, Stage, int | None], ...]:
    """(module name, stage, layer) for every declared tensor of a model of ``n_layer`` layers."""
    return tuple(
        (stage.path.format(layer=layer), stage, layer)
        for stage in STAGES
        for layer in (range(n_layer) if stage.per_layer else (None,))
    )


def masking(causal: bool, edited: bool) -> str:
    """What becomes of the scores in a run with the mask on, or with edits that hide keys."""
    hidden = ["later keys"] * causal + ["keys that an edit hides"] * edited
    return f"−∞ for {' and '.join(hidden)}" if hidden else "unchanged: the mask is off"


def formula(stage: Stage, config: GPT2Config, layer: int | None) -> str:
    """How a stage is computed in a layer: in some models deeper layers divide scores further.

    Of masked scores with the mask on; see ``masking``.
    """
    divisor = config.layer_divisor(layer or 0) if stage.key == "scaled_scores" else 1
    return stage.formula if divisor == 1 else f"{stage.formula} / {divisor}"


def axis_sizes(config: GPT2Config, n_tokens: int) -> dict[str, int]:
    """What every axis letter stands for in one run, such as {"B": 1, "T": 4, "nh": 12, …}."""
    return {
        "B": 1,
        "T": n_tokens,
        "C": config.n_embd,
        "3C": 3 * config.n_embd,
        "F": config.mlp_dim,
        "nh": config.n_head,
        "hs": config.head_dim,
        "1": 1,
        "n_vocab": config.vocab_size,
    }
