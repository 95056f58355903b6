"""Later parts of language models: KV cache, RoPE, grouped queries, flash attention, sinks.

Each cites its paper. Shapes: T tokens, C channels, nh query heads, n_kv heads of keys and values,
hs channels of a head.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gpt2viz.textbook.attention import Steps, added_mask, attend, project
from gpt2viz.textbook.heads import ShapeError
from gpt2viz.textbook.tensors import normal, rows


class Counter(TorchFunctionMode):
    """While it is open, ``count`` grows by a · b · c for each ``@`` of (a, b) and (b, c).

    That is one multiplication and one addition for each number that is summed.
    """

    count = 0

    def __torch_function__(
        self, made: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if made in (torch.Tensor.matmul, torch.Tensor.__matmul__):
            self.count += args[0].numel() * args[1].shape[1]
        return made(*args, **(kwargs or {}))


class WrittenTokens(NamedTuple):
    """Each token's ``output`` (T, hs), its step's multiply-adds, and the last step's k, v (T, hs).

    ``cost`` has a number for each of the T steps.
    """

    output: Tensor
    cost: list[int]
    keys: Tensor
    values: Tensor


def write_uncached(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike) -> WrittenTokens:
    """Without a cache: each step runs all tokens of x (T, C) so far, and keeps the last output.

    The three tables are (hs, C).
    """
    x, outputs, cost = rows(x), [], []
    for t in range(1, len(x) + 1):
        with Counter() as counter:
            q, k, v = (project(x[:t], w) for w in (w_q, w_k, w_v))  # (t, hs) each
            outputs.append(attend(q, k, v, causal=True).output[-1:])
        cost.append(counter.count)
    return WrittenTokens(torch.cat(outputs), cost, k, v)


def write_cached(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike) -> WrittenTokens:
    """With a cache: each step runs one token of x (T, C), and caches its key and value.

    No mask is needed, as no cached token comes later.
    """
    outputs, cost, keys, values = [], [], [], []
    for token in rows(x)[:, None]:  # (1, C)
        with Counter() as counter:
            keys.append(project(token, w_k))
            values.append(project(token, w_v))
            k, v = torch.cat(keys), torch.cat(values)  # (t, hs): the cached ones and the new one
            outputs.append(attend(project(token, w_q), k, v).output)
        cost.append(counter.count)
    return WrittenTokens(torch.cat(outputs), cost, k, v)


@lru_cache(maxsize=8)
def cache_costs(T: int, C: int, hs: int) -> tuple[list[int], list[int]]:
    """Multiply-adds of each of T steps without and with a cache, in a head of that size.

    Both are run on zeros: the count doesn't depend on the numbers that are multiplied.
    """
    x, table = torch.zeros(T, C), torch.zeros(hs, C)
    again, cached = (write(x, table, table, table) for write in (write_uncached, write_cached))
    return again.cost, cached.cost


ROPE_BASE = 10_000.0

# A query and a key of four numbers: two pairs.
ROPE_QUERY = (1.0, 0.0, 0.5, 0.5)
ROPE_KEY = (0.8, 0.6, 0.5, -0.5)


def rotary_angles(positions: Sequence[int], hs: int) -> Tensor:
    """The angle by which each pair is rotated at each position, in radians: (T, hs / 2).

    One step rotates pair i by 10,000^(−2i / hs): the first pair fastest. In float64, since after
    many rotations float32 has too few digits left. Raises ``ShapeError`` if hs is odd.
    """
    if hs % 2:
        raise ShapeError(f"{hs} numbers don't make pairs. Choose an even head size.")
    speeds = ROPE_BASE ** (-torch.arange(0, hs, 2, dtype=torch.float64) / hs)  # (hs / 2,)
    return torch.tensor(positions, dtype=torch.float64)[:, None] * speeds


def rotate(x: ArrayLike, positions: Sequence[int]) -> Tensor:
    """Each pair of neighbours in a row of x (T, hs) rotated by its angle: (T, hs), float64."""
    x = rows(x).double()
    turn = rotary_angles(positions, x.shape[1])
    cos, sin = turn.cos(), turn.sin()
    first, second = x[:, 0::2], x[:, 1::2]  # (T, hs / 2) each
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)
    return turned.flatten(1)  # pairs side by side again


def rotary_score(q: ArrayLike, k: ArrayLike, at: int, key_at: int) -> float:
    """The dot product of q (hs,), rotated for position ``at``, and k (hs,), for ``key_at``."""
    turned = rotate(torch.stack([rows(q), rows(k)]), [at, key_at])
    return float(turned[0] @ turned[1])


def score_by_distance(q: ArrayLike, k: ArrayLike, furthest: int) -> list[float]:
    """The score of q (hs,) and k (hs,) if the key is 0, 1, … ``furthest`` tokens back."""
    query = rotate(rows(q)[None], [furthest])[0]
    keys = rotate(rows(k).repeat(furthest + 1, 1), range(furthest, -1, -1))
    return (keys @ query).tolist()


def random_heads(nh: int, hs: int, C: int) -> tuple[Tensor, Tensor, Tensor]:
    """W_Q, W_K and W_V of nh heads, (nh, hs, C) each: twice standard normal numbers from a seed."""
    w_q, w_k, w_v = 2 * normal(3, nh, hs, C, seed=0)
    return w_q, w_k, w_v


def pool(w: ArrayLike, n_kv: int) -> Tensor:
    """The tables w (nh, hs, C) of nh heads as n_kv: each the mean of a group (section 2.1).

    Raises ``ShapeError`` if the groups can't be of equal size.
    """
    w = rows(w)
    if len(w) % n_kv:
        raise ShapeError(
            f"{len(w)} query heads can't be shared out equally among {n_kv} groups: {len(w)} / "
            f"{n_kv} = {len(w) / n_kv:.2f}. Choose a number of groups that divides {len(w)}."
        )
    return w.reshape(n_kv, -1, *w.shape[1:]).mean(dim=1)


def share(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike) -> tuple[Steps, list[int]]:
    """x (T, C) through nh causal query heads, w_q (nh, hs, C), and w_k and w_v (n_kv, hs, C).

    Query head n reads the keys and values of group n · n_kv / nh, rounded down: its steps are
    those of (nh, T, hs), and the groups are returned with them.
    """
    q, k, v = (rows(x) @ rows(w).mT for w in (w_q, w_k, w_v))  # (nh or n_kv, T, hs)
    group = [n * len(k) // len(q) for n in range(len(q))]
    return attend(q, k[group], v[group], causal=True), group


def cache_bytes(T: int, n_kv: int, hs: int, n_layer: int = 1, width: int = 2) -> int:
    """Bytes of the keys and values of T tokens: 2 · n_layer · n_kv · T · hs numbers.

    ``width`` is the bytes of one number.
    """
    return 2 * n_layer * n_kv * T * hs * width


class AttentionRun(NamedTuple):
    """One method: its output (nh, T, hs), its seconds, and the bytes of its largest score matrix.

    ``largest`` is None if unknown.
    """

    output: Tensor
    seconds: float
    largest: int | None


def explicit_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, int]:
    """Causal attention with whole matrices (nh, T, T): the output (nh, T, hs), a matrix's bytes."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (nh, T, T)
    weights = torch.softmax(scores + added_mask(q.shape[1]), dim=-1)
    return weights @ v, scores.nbytes


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, size: int) -> tuple[Tensor, int]:
    """The same with ``size`` keys at a time: (nh, T, hs), and the bytes of the largest matrix.

    Softmax needs the largest score and a sum. Both are kept for the keys so far; a larger
    score rescales the sums so far.
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


def fused_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, None]:
    """PyTorch's own function: (nh, T, hs). PyTorch chooses the algorithm."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), None


def run_three(
    T: int, size: int, nh: int = 12, hs: int = 64, seed: int = 0
) -> dict[str, AttentionRun]:
    """Random q, k and v (nh, T, hs) through each of the three methods, with the time it takes."""
    q, k, v = normal(3, nh, T, hs, seed=seed)
    ways: dict[str, Callable[[], tuple[Tensor, int | None]]] = {
        "explicit": lambda: explicit_attention(q, k, v),
        "in tiles": lambda: tiled_attention(q, k, v, size),
        "fused": lambda: fused_attention(q, k, v),
    }
    runs = {}
    with torch.inference_mode():
        for name, way in ways.items():
            before = time.perf_counter()
            output, largest = way()
            runs[name] = AttentionRun(output, time.perf_counter() - before, largest)
    return runs


# The last word's scores for all four, and the value of each: the first's is next to nothing.
SINK_SCORES = (4.0, 3.0, 2.0, 3.0)
SINK_VALUES = ((0.1, 0.0), (1.0, 0.2), (0.1, 0.9), (0.8, -0.6))


def attend_once(
    scores: ArrayLike, values: ArrayLike, forget_first: bool = False
) -> tuple[Tensor, Tensor]:
    """Scores (T,) of one query to weights (T,), and the weighted sum (d,) of values (T, d).

    ``forget_first`` hides token 0, as a cache does that drops the oldest.
    """
    seen = rows(scores).clone()
    if forget_first:
        seen[0] = -math.inf
    weights = torch.softmax(seen, dim=-1)  # sums to 1, whatever the scores are
    return weights, weights @ rows(values)
