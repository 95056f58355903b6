"""The number of parameters of each part, from the sizes that a model's files must have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpt2viz.model.config import ModelConfig


@dataclass(frozen=True)
class Component:
    """One part of the model: ``each`` parameters, ``times`` over.

    ``group`` is "embeddings", "attention", "MLP", "norms" or "head"; ``tensors`` says which
    weights of the checkpoint they are, with their sizes.
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


# Where the weights are, what they are called here, group; in the order of the data.
_PARTS = (
    ("wte", "token embeddings", "embeddings"),
    ("wpe", "position embeddings", "embeddings"),
    ("h.0.ln_1", "norm before attention", "norms"),
    ("h.0.attn.c_attn", "attention: Q", "attention"),
    ("h.0.attn.c_attn", "attention: K", "attention"),
    ("h.0.attn.c_attn", "attention: V", "attention"),
    ("h.0.attn.c_proj", "attention: output", "attention"),
    ("h.0.ln_2", "norm before the MLP", "norms"),
    ("h.0.mlp.c_fc", "MLP: widen", "MLP"),
    ("h.0.mlp.c_proj", "MLP: back", "MLP"),
    ("ln_f", "final norm", "norms"),
    ("lm_head", "head", "head"),
)


def parts(config: ModelConfig) -> list[Component]:
    """Every part in the order of the data; their ``n_parameters`` sum to the model's.

    A head that is tied to the token embeddings has none of its own: they are counted there.
    """
    sizes = dict(config.tensors())
    result = []
    for module, name, group in _PARTS:
        own = {n: size for n, size in sizes.items() if n.rpartition(".")[0] == module}
        if module.endswith("c_attn"):  # Q, K and V lie side by side in one matrix
            own = {n: (*size[:-1], size[-1] // 3) for n, size in own.items()}
        written = f"{module.removeprefix('h.0.')}: {' + '.join(map(_spell, own.values()))}"
        if module == "lm_head" and config.tie_word_embeddings:
            own, name, written = {}, "head: tied", "lm_head: the weights of wte, counted there"
        each = sum(math.prod(size) for size in own.values())
        times = config.n_layer if "h.0." in module else 1
        result.append(Component(name, group, written, each, times))
    return result


def _spell(size: tuple[int, ...]) -> str:
    return " × ".join(f"{n:,}" for n in size)
