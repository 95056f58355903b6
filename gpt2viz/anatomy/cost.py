"""What one run cost: multiply-adds by part, and bytes, from the shapes of its tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gpt2viz.run.stages import STAGE, axis_sizes
from gpt2viz.run.trace import TensorRecord, Trace


@dataclass(frozen=True)
class Product:
    """One matrix product of a run, made ``times`` over, once in each layer.

    Each of its numbers is a sum of products; ``formula`` is its shape and, last, the length of
    these sums; ``worked`` is the same in this run.
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


# Stage that is made by a product -> (what it is, group, the axis that is summed over).
_LINEAR = {
    "qkv": ("Q, K and V", "attention", "C"),
    "head_output": ("weights · V", "attention", "T"),
    "projected": ("heads merged and projected", "attention", "C"),
    "mlp_in": ("MLP: widen", "MLP", "C"),
    "mlp_projected": ("MLP: back", "MLP", "F"),
    "last_logits": ("logits after the last token", "head", "C"),
}


def products(trace: Trace) -> list[Product]:
    """Every kind of matrix product of the run, in the order of the data.

    Counted in full, as PyTorch's ``FlopCounterMode`` does: later keys too, which the causal mask
    throws away. Softmax, norms, activations, biases and additions are no products and not counted.
    """
    sizes = axis_sizes(trace.config, len(trace.tokens))
    found = []
    for key, records in _by_key(trace):
        if key == "q":  # the scores: a long run makes them inside of one fused step
            B, nh, T, hs = records[0].shape
            shape = (B, nh, T, sizes["T"])
            product = _product(
                "scores Q · Kᵀ", "attention", ("B", "nh", "T", "T", "hs"), (*shape, hs)
            )
        elif key in _LINEAR:
            name, group, summed = _LINEAR[key]
            axes = (*records[0].axes, summed)
            product = _product(name, group, axes, (*records[0].shape, sizes[summed]))
        else:
            continue
        found.append(Product(*product, times=len(records)))
    return found


def _product(
    name: str, group: str, axes: tuple[str, ...], shape: tuple[int, ...]
) -> tuple[str, str, str, str, int]:
    worked = " · ".join(f"{n:,}" for n in shape)
    return name, group, " · ".join(axes), worked, math.prod(shape)


@dataclass(frozen=True)
class Tensors:
    """All tensors of one stage, of all layers: bytes that were made and that the trace keeps.

    Nothing is made of a tensor that has its memory from the one before.
    """

    name: str
    key: str
    shape: tuple[int, ...]
    times: int
    made: int
    kept: int


def activations(trace: Trace) -> list[Tensors]:
    """What the run made, by stage, in its order. Fused steps make no scores and weights to keep."""
    return [
        Tensors(
            STAGE[key].label,
            key,
            records[0].shape,
            len(records),
            sum(record.nbytes for record in records if not record.shared),
            sum(made.nbytes for made in records if (key, made.layer) in trace.captured),
        )
        for key, records in _by_key(trace)
    ]


def _by_key(trace: Trace) -> Iterator[tuple[str, list[TensorRecord]]]:
    records: dict[str, list[TensorRecord]] = {}
    for record in trace.tensors:
        records.setdefault(record.key, []).append(record)
    yield from records.items()
