"""The gradient at every layer of a stack, with the residual and without it.

He et al. 2016, "Identity Mappings in Deep Residual Networks": the sum lets a gradient pass by.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import nn

from gpt2viz.textbook.draws import drawn, normal
from gpt2viz.textbook.mlp import FeedForward


@lru_cache(maxsize=16)
def gradients(depth: int, residual: bool, C: int = 32, seed: int = 0) -> tuple[float, ...]:
    """The size of the gradient before and after each of ``depth`` MLPs, over that at the end.

    Each layer makes f(x) of x (C,), or x + f(x) with ``residual``. Sizes are root mean squares,
    for a random gradient (C,) at the end. The parameters of f are drawn from a seed, the same both
    times.
    """
    parts: list[nn.Module] = [drawn(FeedForward(C), seed + 1 + n) for n in range(depth)]
    stream = [normal(C, seed=seed).requires_grad_()]
    for part in parts:
        made = part(stream[-1])
        stream.append(stream[-1] + made if residual else made)
    end = normal(C, seed=seed + depth + 1)
    found = torch.autograd.grad(stream[-1], stream, end)
    sizes = [float(one.square().mean().sqrt()) for one in found]
    return tuple(size / sizes[-1] for size in sizes)
