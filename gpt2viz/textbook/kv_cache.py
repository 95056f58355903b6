"""Writing token by token, with keys and values worked out again at each step, or kept.

N. Shazeer 2019, "Fast Transformer Decoding", and R. Pope et al. 2022, "Efficiently Scaling
Transformer Inference". Shapes: T tokens, C channels, hs channels of the head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gpt2viz.textbook.steps import attend, project, rows


class Counter(TorchFunctionMode):
    """While it is open, ``count`` grows by a · b · c for each ``@`` of (a, b) and (b, c).

    That is one multiplication and one addition for each number that is summed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self, made: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if made in (torch.Tensor.matmul, torch.Tensor.__matmul__):
            self.count += args[0].numel() * args[1].shape[1]
        return made(*args, **(kwargs or {}))


class Written(NamedTuple):
    """Each token's ``output`` (T, hs), its step's multiply-adds, and the last step's k, v (T, hs).

    ``cost`` has a number for each of the T steps.
    """

    output: Tensor
    cost: list[int]
    keys: Tensor
    values: Tensor


def write_again(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike) -> Written:
    """Without a cache: each step reads all tokens of x (T, C) so far, and keeps the last output.

    The three tables are (hs, C).
    """
    x, outputs, cost = rows(x), [], []
    for t in range(1, len(x) + 1):
        with Counter() as counter:
            q, k, v = (project(x[:t], w) for w in (w_q, w_k, w_v))  # (t, hs) each
            outputs.append(attend(q, k, v, causal=True).output[-1:])
        cost.append(counter.count)
    return Written(torch.cat(outputs), cost, k, v)


def write_cached(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike) -> Written:
    """With a cache: each step reads one token of x (T, C); its key and value join those kept.

    No mask is needed, as nothing that is kept comes later.
    """
    outputs, cost, keys, values = [], [], [], []
    for token in rows(x)[:, None]:  # (1, C)
        with Counter() as counter:
            keys.append(project(token, w_k))
            values.append(project(token, w_v))
            k, v = torch.cat(keys), torch.cat(values)  # (t, hs): all that was kept, and the new one
            outputs.append(attend(project(token, w_q), k, v).output)
        cost.append(counter.count)
    return Written(torch.cat(outputs), cost, k, v)


@lru_cache(maxsize=8)
def costs(T: int, C: int, hs: int) -> tuple[list[int], list[int]]:
    """Multiply-adds of each of T steps without and with a cache, in a head of that size.

    Both ways are gone, with zeros: what is multiplied doesn't change how often.
    """
    x, table = torch.zeros(T, C), torch.zeros(hs, C)
    again, cached = (write(x, table, table, table) for write in (write_again, write_cached))
    return again.cost, cached.cost
