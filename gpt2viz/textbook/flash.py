"""Attention a few keys at a time, so that no (T, T) table is ever whole, beside the explicit form.

Dao et al. 2022, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness";
the running softmax is Milakov & Gimelshein 2018.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gpt2viz.textbook.draws import normal
from gpt2viz.textbook.masks import added_mask


class Ran(NamedTuple):
    """One way: its output (nh, T, hs), the seconds it took, and bytes of its largest score table.

    ``largest`` is None where it can't be seen from outside.
    """

    output: Tensor
    seconds: float
    largest: int | None


def explicit(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, int]:
    """Causal attention with whole tables (nh, T, T): the output (nh, T, hs), a table's bytes."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (nh, T, T)
    weights = torch.softmax(scores + added_mask(q.shape[1]), dim=-1)
    return weights @ v, scores.nbytes


def tiled(q: Tensor, k: Tensor, v: Tensor, size: int) -> tuple[Tensor, int]:
    """The same from ``size`` keys at a time: (nh, T, hs), and the bytes of the largest table.

    Softmax needs the largest score and a sum. Both are kept as they are so far; when a larger
    score comes, what was summed up before is scaled down to it.
    """
    T, bytes_seen = q.shape[1], 0
    most = torch.full((*q.shape[:2], 1), -math.inf)  # (nh, T, 1), the largest score so far
    total, mixed = torch.zeros_like(most), torch.zeros_like(q)
    for start in range(0, T, size):
        keys = slice(start, start + size)
        scores = q @ k[:, keys].mT / math.sqrt(q.shape[-1])  # (nh, T, size)
        later = torch.arange(T)[keys] > torch.arange(T)[:, None]
        scores = scores.masked_fill(later, -math.inf)
        new = torch.maximum(most, scores.amax(dim=-1, keepdim=True))
        part, shrunk = torch.exp(scores - new), torch.exp(most - new)
        total = total * shrunk + part.sum(dim=-1, keepdim=True)
        mixed = mixed * shrunk + part @ v[:, keys]
        most, bytes_seen = new, max(bytes_seen, scores.nbytes)
    return mixed / total, bytes_seen


def fused(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, None]:
    """PyTorch's own, in one call: (nh, T, hs). Which algorithm runs is for it to choose."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), None


def run_beside(T: int, size: int, nh: int = 12, hs: int = 64, seed: int = 0) -> dict[str, Ran]:
    """Random q, k and v (nh, T, hs) through each of the three ways, with the time that it takes."""
    q, k, v = normal(3, nh, T, hs, seed=seed)
    ways: dict[str, Callable[[], tuple[Tensor, int | None]]] = {
        "explicit": lambda: explicit(q, k, v),
        "in tiles": lambda: tiled(q, k, v, size),
        "fused": lambda: fused(q, k, v),
    }
    found = {}
    with torch.inference_mode():
        for name, way in ways.items():
            before = time.perf_counter()
            output, largest = way()
            found[name] = Ran(output, time.perf_counter() - before, largest)
    return found
