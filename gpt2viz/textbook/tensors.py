"""Tables of numbers as tensors, and random ones from a seed, apart from the global generator."""

from __future__ import annotations

from typing import TypeVar

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def rows(values: ArrayLike) -> Tensor:
    """A table of numbers as a float32 tensor."""
    return torch.as_tensor(values, dtype=torch.float32)


def normal(*size: int, seed: int) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def randomize(module: Module, seed: int, std: float | None = None) -> Module:
    """The module with random matrices, of standard deviation ``std`` or 1 / √(input width).

    Biases become 0; the gains of norms stay 1.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, weights in module.named_parameters():
        if weights.dim() > 1:
            deviation = weights.shape[-1] ** -0.5 if std is None else std
            nn.init.normal_(weights, std=deviation, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(weights)
    return module.eval()
