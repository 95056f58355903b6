"""The cost of one run: multiply-adds by part, and bytes, from the shapes of its tensors.

And the cost of a step that reads one token with a KV cache of those before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpt2viz.model.config import ModelConfig
from gpt2viz.run.stages import axis_sizes
from gpt2viz.run.trace import TensorRecord, Trace


@dataclass(frozen=True)
class Product:
    """One matrix product of a run, computed ``times`` over, once in each layer.

    Each of its numbers is a sum of products; ``formula`` is its shape and, last, the length of
    these sums; ``worked`` is the same with this run's sizes.
    """

    name: str
    group: str
    formula: str
    worked: str
    each: int
    times: int

    @property
    def multiply_adds(self) -> int:
        """Multiplications, each with an addition, in all layers."""
        return self.each * self.times


# Stage that a product computes -> (name, group, the axis that is summed over) …
_PRODUCTS = {
    "qkv": ("Q, K and V", "attention", "C"),
    "q_unnormed": ("Q", "attention", "C"),
    "q_unrotated": ("Q", "attention", "C"),
    "k_unnormed": ("K", "attention", "C"),
    "k_unrotated": ("K", "attention", "C"),
    "v": ("V", "attention", "C"),
    "q": ("scores Q · Kᵀ", "attention", "hs"),
    "head_output": ("weights · V", "attention", "T"),
    "projected": ("heads · W_O", "attention", "C"),
    "attention_output": ("heads · W_O", "attention", "nh · hs"),
    "mlp_in": ("MLP: widen", "MLP", "C"),
    "mlp_gate": ("MLP: gate", "MLP", "C"),
    "mlp_up": ("MLP: widen", "MLP", "C"),
    "mlp_projected": ("MLP: back", "MLP", "F"),
    "mlp_output": ("MLP: back", "MLP", "F"),
    "last_logits": ("logits", "unembedding", "C"),
}
# … unless the model has this earlier stage, which the product computes then.
_MADE_BEFORE = {
    "q_unrotated": "q_unnormed",
    "k_unrotated": "k_unnormed",
    "v": "qkv",
    "attention_output": "projected",
    "mlp_output": "mlp_projected",
}


def products(trace: Trace) -> list[Product]:
    """Every kind of matrix product of the run, in the order of the data.

    Counted in full, as by PyTorch's ``FlopCounterMode``: including later keys, which the causal
    mask hides. Softmax, norms, activations, biases and additions aren't products.
    """
    return products_of(trace.tensors, trace.config)


def products_of(tensors: Sequence[TensorRecord], config: ModelConfig) -> list[Product]:
    """The same from the shape table of a run, which may have been of the last of T tokens alone."""
    by_key = dict(_group_by_key(tensors))
    n_tokens, embedded = by_key["k"][0].shape[-2], by_key["token_embedding"][0]
    sizes, result = axis_sizes(config, n_tokens), []
    sizes["nh · hs"] = sizes["nh"] * sizes["hs"]
    for key, records in by_key.items():
        if key not in _PRODUCTS or _MADE_BEFORE.get(key) in by_key:
            continue
        name, group, summed = _PRODUCTS[key]
        axes, shape = (*records[0].axes, summed), (*records[0].shape, sizes[summed])
        if key == "q":  # the scores: a long run computes them in one fused step
            axes, shape = (*axes[:-2], "T", "hs"), (*shape[:-2], n_tokens, shape[-1])
        if key == "v":  # of the tokens that were run; the others' were cached
            axes = (*axes[:2], embedded.axes[1], *axes[3:])
            shape = (*shape[:2], embedded.shape[1], *shape[3:])
        worked = " · ".join(f"{n:,}" for n in shape)
        each = math.prod(shape)
        result.append(Product(name, group, " · ".join(axes), worked, each, len(records)))
    return result


@dataclass(frozen=True)
class Tensors:
    """All tensors of one stage, of all layers: bytes allocated, and bytes that the trace keeps.

    A view of the tensor before allocates none.
    """

    name: str
    key: str
    shape: tuple[int, ...]
    times: int
    made_bytes: int
    kept_bytes: int


def activations(trace: Trace) -> list[Tensors]:
    """The run's arrays by stage, in its order. A fused run has no scores and weights to keep."""
    return [
        Tensors(
            trace.graph[records[0].key].label,
            key,
            records[0].shape,
            len(records),
            sum(record.nbytes for record in records if not record.shared),
            sum(record.nbytes for record in records if (key, record.layer) in trace.captured),
        )
        for key, records in _group_by_key(trace.tensors)
    ]


def _group_by_key(tensors: Sequence[TensorRecord]) -> Iterator[tuple[str, list[TensorRecord]]]:
    records: dict[str, list[TensorRecord]] = {}
    for record in tensors:
        records.setdefault(record.key, []).append(record)
    yield from records.items()
