"""Three MLPs on one input: with GELU, with ReLU and with a gate, of equally many parameters."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gpt2viz.textbook.draws import drawn
from gpt2viz.textbook.mlp import FeedForward, SwiGLU, silu, swiglu_width
from gpt2viz.textbook.steps import rows


class Ran(NamedTuple):
    """What a block of ``n_parameters`` made of x (T, C): ``inside`` (T, F), ``output`` (T, C)."""

    n_parameters: int
    inside: Tensor
    output: Tensor


@lru_cache(maxsize=8)
def three_blocks(C: int, seed: int) -> dict[str, FeedForward | SwiGLU]:
    """The blocks, without biases, with tables from a seed; GELU's and ReLU's have the same."""
    blocks: dict[str, nn.Module] = {
        "GELU": FeedForward(C, "GELU (tanh)", bias=False),
        "ReLU": FeedForward(C, "ReLU", bias=False),
        "SwiGLU": SwiGLU(C, swiglu_width(C, multiple=1)),
    }
    return {name: drawn(block, seed) for name, block in blocks.items()}  # type: ignore[misc]


def inside(block: FeedForward | SwiGLU, x: Tensor) -> Tensor:
    """What is left of x (T, C) after the curve or the gate: (T, F)."""
    if isinstance(block, SwiGLU):
        return silu(block.gate(x)) * block.up(x)  # type: ignore[no-any-return]
    return block.curve(block.widen(x))


def run_beside(x: ArrayLike, seed: int) -> dict[str, Ran]:
    """The same x (T, C) through each of the three blocks."""
    given = rows(x)
    with torch.inference_mode():
        return {
            name: Ran(
                sum(t.numel() for t in block.parameters()), inside(block, given), block(given)
            )
            for name, block in three_blocks(given.shape[-1], seed).items()
        }
