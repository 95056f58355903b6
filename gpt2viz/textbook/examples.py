"""The 26 worked examples by id: their texts, and the claimed and computed numbers of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpt2viz.textbook import (
    attention,
    diagram,
    embeddings,
    heads,
    logits,
    mistakes,
    mlp,
    residual,
    sizes,
)
from gpt2viz.textbook.claims import Claim, Example

_ALL = (
    Example("E1", "The knobs of a configuration", (0, 2, 4), sizes.knob_claims),
    Example("E2", "Token ids become vectors", (0, 4), embeddings.token_claims),
    Example("E3", "Positions are added", (0, 4), embeddings.position_claims),
    Example("E4", "The crane among birds and machines", (0, 4), attention.crane_claims),
    Example("E5", "“A crane ate fish” through one head", (0, 4), attention.sentence_claims),
    Example("E6", "One projection instead of three", (0, 4), attention.fused_claims),
    Example("E7", "The mask on four words", (0, 1, 4), attention.mask_claims),
    Example("E8", "Splitting and merging heads", (0, 4), heads.split_claims),
    Example("E9", "A linear layer by hand", (0,), mlp.linear_claims),
    Example("E10", "One token through the MLP", (0,), mlp.walk_claims),
    Example("E11", "The residual addition", (0,), residual.residual_claims),
    Example("E12", "LayerNorm, before or after", (0, 1), residual.norm_claims),
    Example("E13", "Dropout", (0, 4), mlp.dropout_claims),
    Example("E14", "Logits everywhere, or only at the end", (1,), logits.logit_claims),
    Example("E15", "Four curves and a gate", (1,), mlp.curve_claims),
    Example("E16", "Where the parameters are", (1,), sizes.parameter_claims),
    Example("E17", "Small initial parameters", (1,), residual.depth_claims),
    Example("E18", "The four released models", (1, 2), sizes.size_claims),
    Example("E19", "“Your journey starts with one step”", (2,), attention.journey_claims),
    Example("E20", "The four variants", (2,), heads.variant_claims),
    Example("E21", "How the shapes change", (2,), heads.pipeline_claims),
    Example("E22", "Why divide by √hs", (2,), attention.scale_claims),
    Example("E23", "Five common errors", (2,), mistakes.mistake_claims),
    Example("E24", "Heads built separately or together", (3,), heads.separate_claims),
    Example("E25", "The code beside the picture", (3,), diagram.line_claims),
    Example("E26", "The architecture", (0, 1, 4), diagram.diagram_claims),
)

EXAMPLES: Mapping[str, Example] = {example.id: example for example in _ALL}


@lru_cache(maxsize=len(EXAMPLES))
def claims(id: str) -> tuple[Claim, ...]:
    """All claims of an example, with their computed results; cached."""
    return tuple(EXAMPLES[id].claims())
