"""TransformerLens' names (Nanda & Bloom 2022) for the stages of a run.

Its hook points are named by where they stand in its model. The numbers are those that it has of a
model loaded by ``from_pretrained_no_processing``: otherwise it folds LayerNorms and centres what is
written to the stream. Shapes are ours: what a head has is (B, nh, T, hs), not (B, T, nh, hs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from gpt2viz.errors import PlaceError, StageError

#: Its name, N a layer's number -> the stage's key. A layer's ``hook_resid_pre`` is what the layer
#: before left: see ``stage_of``.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "hook_embed": "token_embedding",
        "hook_pos_embed": "position_embedding",
        "blocks.N.hook_resid_pre": "residual_out",
        "blocks.N.attn.hook_q": "q",
        "blocks.N.attn.hook_k": "k",
        "blocks.N.attn.hook_v": "v",
        "blocks.N.attn.hook_attn_scores": "masked_scores",
        "blocks.N.attn.hook_pattern": "weights",
        "blocks.N.attn.hook_z": "head_output",
        "blocks.N.hook_attn_out": "attention_output",
        "blocks.N.hook_resid_mid": "residual_mid",
        "blocks.N.hook_mlp_out": "mlp_output",
        "blocks.N.hook_resid_post": "residual_out",
        "ln_final.hook_normalized": "final_norm",
    }
)
_IN_LAYER = re.compile(r"blocks\.([0-9]{1,6})\.(.+)")


def stage_of(name: str, n_layer: int) -> tuple[str, int | None]:
    """Stage and layer of one of its names, such as "blocks.0.attn.hook_pattern".

    Raises ``StageError`` for what isn't one of ``NAMES``, and ``PlaceError`` for a layer that a
    model of ``n_layer`` layers doesn't have.
    """
    found = _IN_LAYER.fullmatch(name)
    key = NAMES.get(f"blocks.N.{found[2]}" if found else name)
    if key is None or (found is None and name.startswith("blocks.")):
        known = " ".join(NAMES)
        raise StageError(f"no {name!r:.80} in a trace; of TransformerLens' names: {known}")
    if found is None:
        return key, None
    layer = int(found[1])
    if layer >= n_layer:
        raise PlaceError(f"no layer {layer}: this model has layers 0 to {n_layer - 1}")
    if found[2] == "hook_resid_pre":
        return (key, layer - 1) if layer else ("embedding", None)
    return key, layer


def name_of(key: str, layer: int | None) -> str:
    """Its name of a stage; "" where it has no hook point for these numbers, as for raw scores.

    Of two names of the same numbers, that of the layer which made them.
    """
    if key == "embedding":
        return "blocks.0.hook_resid_pre"
    names = [name for name, stage in NAMES.items() if stage == key]
    return names[-1].replace("blocks.N.", f"blocks.{layer}.") if names else ""
