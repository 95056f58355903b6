"""Two ways to write the causal mask, and where a module keeps its triangle.

−∞ is filled in, or M is added, which is 0 or −∞. The buffer is as in A. Karpathy's minGPT (2020).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def added_mask(T: int) -> Tensor:
    """M (T, T): 0 where a query may see a key, −∞ where the key comes later."""
    return torch.full((T, T), -math.inf).triu(diagonal=1)


def add_mask(scores: Tensor) -> Tensor:
    """(T, T) scores + M: where M is 0 they stay, where it is −∞ they become −∞."""
    return scores + added_mask(len(scores))


class KeptMask(nn.Module):
    """The triangle for n_positions, made once and kept as a buffer.

    (B, nh, T, T) scores -> (B, nh, T, T), with −∞ where the key comes later. A buffer goes along
    with the module, to a GPU and into its file, but is never trained.
    """

    bias: Tensor

    def __init__(self, n_positions: int) -> None:
        super().__init__()
        triangle = torch.ones(n_positions, n_positions).tril()
        self.register_buffer("bias", triangle.view(1, 1, n_positions, n_positions))

    def forward(self, scores: Tensor) -> Tensor:
        T = scores.shape[-1]
        may_see = self.bias[:, :, :T, :T]  # (1, 1, T, T)
        return scores.masked_fill(may_see == 0, -math.inf)  # (B, nh, T, T)


def kept_steps(n_positions: int, B: int, nh: int, T: int) -> list[tuple[str, str]]:
    """(what is done, shape after it) where a kept mask meets scores (B, nh, T, T)."""
    kept, scores = KeptMask(n_positions), torch.zeros(B, nh, T, T)
    triangle = kept.bias[0, 0]
    return [
        ("ones(n, n).tril()", str(tuple(triangle.shape))),
        (".view(1, 1, n, n), kept as a buffer", str(tuple(kept.bias.shape))),
        ("[:, :, :T, :T]: what this text needs", str(tuple(kept.bias[:, :, :T, :T].shape))),
        ("the scores that it meets", str(tuple(scores.shape))),
        ("masked_fill: stretched over B and nh", str(tuple(kept(scores).shape))),
    ]
