"""The number of parameters of each part, from the tensor sizes of a model's config."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpt2viz.model.config import ModelConfig


@dataclass(frozen=True)
class Component:
    """One part of the model: ``times`` copies of ``each`` parameters.

    ``group`` is "embeddings", "attention", "MLP", "norms" or "unembedding"; ``tensors`` names its
    weights in the checkpoint, with their sizes.
    """

    name: str
    group: str
    tensors: str
    each: int
    times: int

    @property
    def n_parameters(self) -> int:
        """Parameters of the part in the whole model."""
        return self.each * self.times


# Module, name here, group; in the order of the data.
_PARTS = (
    ("wte", "token embeddings", "embeddings"),
    ("embed_tokens", "token embeddings", "embeddings"),
    ("wpe", "position embeddings", "embeddings"),
    ("h.0.ln_1", "norm before attention", "norms"),
    ("layers.0.input_layernorm", "norm before attention", "norms"),
    ("h.0.attn.c_attn", "attention: Q", "attention"),
    ("h.0.attn.c_attn", "attention: K", "attention"),
    ("h.0.attn.c_attn", "attention: V", "attention"),
    ("layers.0.self_attn.q_proj", "attention: Q", "attention"),
    ("layers.0.self_attn.k_proj", "attention: K", "attention"),
    ("layers.0.self_attn.v_proj", "attention: V", "attention"),
    ("layers.0.self_attn.q_norm", "norm of Q", "norms"),
    ("layers.0.self_attn.k_norm", "norm of K", "norms"),
    ("h.0.attn.c_proj", "attention: output", "attention"),
    ("layers.0.self_attn.o_proj", "attention: output", "attention"),
    ("h.0.ln_2", "norm before the MLP", "norms"),
    ("layers.0.post_attention_layernorm", "norm before the MLP", "norms"),
    ("layers.0.mlp.gate_proj", "MLP: gate", "MLP"),
    ("h.0.mlp.c_fc", "MLP: widen", "MLP"),
    ("layers.0.mlp.up_proj", "MLP: widen", "MLP"),
    ("h.0.mlp.c_proj", "MLP: back", "MLP"),
    ("layers.0.mlp.down_proj", "MLP: back", "MLP"),
    ("ln_f", "final norm", "norms"),
    ("norm", "final norm", "norms"),
    ("lm_head", "unembedding", "unembedding"),
)


def parts(config: ModelConfig) -> list[Component]:
    """Every part in the order of the data; their ``n_parameters`` sum to the model's.

    An unembedding tied to the token embeddings has none of its own: they are counted there.
    """
    sizes = dict(config.tensors())
    result = []
    for module, name, group in _PARTS:
        own = {n: size for n, size in sizes.items() if n.rpartition(".")[0] == module}
        if not own:
            continue
        if module.endswith("c_attn"):  # Q, K and V lie side by side in one matrix
            own = {n: (*size[:-1], size[-1] // 3) for n, size in own.items()}
        _, in_layer, short = module.rpartition(".0.")
        written = f"{short}: {' + '.join(map(_spell, own.values()))}"
        if module == "lm_head" and config.tie_word_embeddings:
            embedding = config.embedding_name.removesuffix(".weight")
            own, name = {}, "unembedding: tied"
            written = f"lm_head: as {embedding}"
        each = sum(math.prod(size) for size in own.values())
        times = config.n_layer if in_layer else 1
        result.append(Component(name, group, written, each, times))
    return result


def _spell(size: tuple[int, ...]) -> str:
    return " × ".join(f"{n:,}" for n in size)
