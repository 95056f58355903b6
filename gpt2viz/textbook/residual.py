"""The residual stream: sums, norms, gradients through a deep stack, and small initial weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gpt2viz.arrays import Array
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2, Mask
from gpt2viz.run.stages import StageName
from gpt2viz.run.trace import Trace, check_run
from gpt2viz.textbook.claims import Claim
from gpt2viz.textbook.embeddings import Near, cosines, nearest, table_of
from gpt2viz.textbook.mlp import FeedForward
from gpt2viz.textbook.tensors import normal, randomize, rows

EPSILON = 1e-5

# E11
STREAM = (0.2, 0.1, 0.3, 0.4)
ADDED = (0.1, -0.1, 0.2, -0.3)


class Normed(NamedTuple):
    """LayerNorm step by step for x (C,): two numbers and three vectors (C,)."""

    mean: Tensor
    variance: Tensor
    centred: Tensor
    normed: Tensor
    output: Tensor


class Scaled(NamedTuple):
    """RMSNorm step by step for x (C,): its root mean square ``size``, and two vectors (C,)."""

    size: Tensor
    normed: Tensor
    output: Tensor


class Fixed(nn.Module):
    """The identity, through which no gradient flows back: (…, C) -> (…, C)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


def add(x: ArrayLike, change: ArrayLike) -> Tensor:
    """The residual connection: a part's output is added to its input, (…, C)."""
    return rows(x) + rows(change)


def layer_norm(x: ArrayLike, gain: ArrayLike, shift: ArrayLike) -> Normed:
    """Mean 0 and variance 1 over the channels, then a learned gain and shift (Ba et al. 2016)."""
    x = rows(x)
    mean = x.mean()
    centred = x - mean
    variance = (centred**2).mean()
    normed = centred / torch.sqrt(variance + EPSILON)
    return Normed(mean, variance, centred, normed, normed * rows(gain) + rows(shift))


def rms_norm(x: ArrayLike, gain: ArrayLike) -> Scaled:
    """Root mean square 1 over the channels, then a learned gain (Zhang & Sennrich 2019).

    The mean is not subtracted, and there is no shift.
    """
    x = rows(x)
    size = torch.sqrt((x**2).mean() + EPSILON)
    normed = x / size
    return Scaled(size, normed, normed * rows(gain))


class Residual(nn.Module):
    """The part reads the stream without a norm, and its output is added to the stream."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return x + self.part(x)  # type: ignore[no-any-return]


class PreNorm(nn.Module):
    """GPT-2's order: the part reads a normalized copy, and its output is added to the stream."""

    def __init__(self, C: int, part: nn.Module) -> None:
        super().__init__()
        self.norm, self.part = nn.LayerNorm(C), part

    def forward(self, x: Tensor) -> Tensor:
        return x + self.part(self.norm(x))  # type: ignore[no-any-return]


class PostNorm(PreNorm):
    """The order of 2017: the part reads the stream, and the sum is normalized."""

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.part(x))  # type: ignore[no-any-return]


_ORDERS = {"pre-norm": PreNorm, "post-norm": PostNorm}


def growth(order: str, depth: int) -> list[float]:
    """Size (root mean square) of a stream of 32 numbers after each of ``depth`` parts.

    The parts are random linear layers; ``order`` is "pre-norm" or "post-norm".
    """
    x = normal(32, seed=0)
    sizes = [_size(x)]
    with torch.inference_mode():
        for block in _blocks(order, depth):
            x = block(x)
            sizes.append(_size(x))
    return sizes


def _blocks(order: str, depth: int) -> list[PreNorm]:
    return [randomize(_ORDERS[order](32, nn.Linear(32, 32)), 1 + n) for n in range(depth)]


def gradients(order: str, depth: int, straight: bool = False) -> list[float]:
    """Gradient at the stream before and after each of ``growth``'s parts, divided by the last one.

    Sizes (root mean squares) for a random gradient (C,) at the end; with ``straight`` only the part
    that flows back along the stream, with the parts' outputs as constants (Wang et al. 2019,
    "Learning Deep Transformer Models for Machine Translation", section 2.2).
    """
    stream = [normal(32, seed=0).requires_grad_()]
    for block in _blocks(order, depth):
        if straight:
            block.part = nn.Sequential(block.part, Fixed())
        stream.append(block(stream[-1]))
    return gradient_sizes(stream, depth + 1)


def gradient_sizes(stream: list[Tensor], seed: int) -> list[float]:
    """Sizes of the gradients at each of (C,), for a random one at the last, divided by its own."""
    end = normal(len(stream[-1]), seed=seed)
    gradients = torch.autograd.grad(stream[-1], stream, end)
    return [_size(gradient) / _size(end) for gradient in gradients]


@lru_cache(maxsize=16)
def stream_sizes(n_layer: int, scaled: bool) -> tuple[float, ...]:
    """Size of an untrained GPT-2's residual stream after the embedding and after each layer.

    Weights are drawn with standard deviation 0.02; with ``scaled`` those of the two layers that
    write into the stream with 0.02 / √(2 n_layer), since 2 n_layer of them add up (Radford et al.
    2019).
    """
    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=96, n_layer=n_layer, n_head=4)
    network = randomize(GPT2(config), seed=0, std=0.02)
    with torch.inference_mode():
        if scaled:
            for name, weights in network.named_parameters():
                if name.endswith("c_proj.weight"):
                    weights.mul_(first_deviation(n_layer) / 0.02)
        x = network.drop(network.wte(torch.arange(32)) + network.wpe(torch.arange(32)))[None]
        sizes, mask = [_size(x)], Mask.of(32, torch.arange(32))
        for block in network.h:
            x = block(x, mask)
            sizes.append(_size(x))
    return tuple(sizes)


def first_deviation(n_layer: int) -> float:
    """0.02 / √(2 L): the initial standard deviation of weights that write into the stream."""
    return 0.02 / math.sqrt(2 * n_layer)


def _size(x: Tensor) -> float:
    return float(x.square().mean().sqrt())


def residual_claims() -> list[Claim]:
    """E11."""
    return [Claim("x + f(x)", "0.3000 0.0000 0.5000 0.1000", add(STREAM, ADDED))]


def norm_claims() -> list[Claim]:
    """E12, on the sum of E11."""
    steps = layer_norm(add(STREAM, ADDED), [1] * 4, [0] * 4)
    orders = ("pre-norm", "post-norm")
    sizes = [growth(order, 24)[-1] for order in orders]
    straight = [gradients(order, 24, straight=True)[0] for order in orders]
    return [
        Claim("mean", "", steps.mean),
        Claim("variance", "", steps.variance),
        Claim("normalised", "", steps.normed),
        Claim("stream after 24 parts, pre-norm and post-norm", "", sizes),
        Claim("… and the gradient that comes straight back through them", "", straight),
    ]


def depth_claims() -> list[Claim]:
    """E17, with 12 layers."""
    plain, scaled = stream_sizes(12, scaled=False), stream_sizes(12, scaled=True)
    return [
        Claim("0.02 / √24, times 1,000", "", 1000 * first_deviation(12)),
        Claim("growth of the stream, all weights at 0.02", "", plain[-1] / plain[0]),
        Claim("growth of the stream, writers scaled", "", scaled[-1] / scaled[0]),
    ]


#: Layers by their formulas: functions of x (C,), of the MLP f and of the number of layers.
LANES: Mapping[str, Callable[[Tensor, nn.Module, int], Tensor]] = {
    "x + f(x)": lambda x, f, _: x + f(x),
    "f(x)": lambda x, f, _: f(x),
    "x + f(norm(x))": lambda x, f, _: x + f(F.layer_norm(x, x.shape)),
    "x + f(x) / √L": lambda x, f, n_layer: x + f(x) / n_layer**0.5,
}


@lru_cache(maxsize=32)
def lane_gradients(depth: int, lane: str, C: int = 32) -> tuple[float, ...]:
    """The size of the gradient before and after each of ``depth`` MLPs, divided by the last one.

    All layers are of one of ``LANES``. Sizes are root mean squares, for a random gradient (C,) at
    the end. The parameters of f are drawn from a seed, the same for all lanes.
    """
    parts: list[nn.Module] = [randomize(FeedForward(C), 1 + n) for n in range(depth)]
    stream = [normal(C, seed=0).requires_grad_()]
    for part in parts:
        stream.append(LANES[lane](stream[-1], part, depth))
    return tuple(gradient_sizes(stream, depth + 1))


class Stop(NamedTuple):
    """A token's vector at one stage of the residual stream.

    ``added`` (C,) is the last addition and ``stream`` (C,) the sum so far; ``cosine`` compares the
    stream with itself before that, 1 at the first stage. ``nearest`` are the most similar rows of
    the token table, the nearest first.
    """

    key: str
    layer: int | None
    added: Array
    stream: Array
    cosine: float
    nearest: list[Near]


def stops(model: Model, trace: Trace, position: int, count: int = 5) -> list[Stop]:
    """A token's residual stream, stage by stage.

    First the row of the token table, then the sum with the position vector, if there is one, and
    the sums after attention and MLP of each layer, each with its ``count`` nearest rows. Raises
    ``ArgumentError`` for a trace of another model.
    """
    check_run(trace, model)
    sums: list[tuple[StageName, int | None, Array]] = [
        ("token_embedding", None, trace.stage("token_embedding")[0, position])
    ]
    if "position_embedding" in trace.graph:
        sums.append(("embedding", None, trace.stage("position_embedding")[position]))
    for n in range(model.config.n_layer):
        sums.append(("residual_mid", n, trace.stage("attention_output", n)[0, position]))
        sums.append(("residual_out", n, trace.stage("mlp_output", n)[0, position]))
    streams = np.stack([trace.stage(key, layer)[0, position] for key, layer, _ in sums])  # (S, C)
    alike = cosines(table_of(model), streams)  # (S, n_vocab)
    turned = [1.0, *cosines(streams, streams).diagonal(1).tolist()]  # (S,)
    return [
        Stop(*added, stream, cosine, nearest(row, count))
        for added, stream, cosine, row in zip(sums, streams, turned, alike, strict=True)
    ]
