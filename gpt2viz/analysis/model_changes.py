"""Two checkpoints of one model, compared: their weights, and what their heads do.

A head can change in two ways: its own weights changed, so that it does something else with the
same stream; or earlier layers changed, so that it reads another stream. The first
is measured by letting each attention of ``after`` read the stream of ``before``; both together by
running ``after``.

Distances are of four kinds (``MEASURES``), a mean over a text's tokens each:

- *output*: how far apart the vectors (C,) are that a head writes into the residual stream, as a
  share of the length of the stream of ``before`` that it reads;
- *pattern*: the total variation of the rows of a head's weights, ½ Σ |after − before|: 0 for the
  same row, 1 for rows that share no key (Levin & Peres 2017, "Markov Chains and Mixing Times",
  section 4.1). All rows count equally except the first token's, which has one key and is left out;
- either with the head's *own* change alone, on the stream of ``before``.

A text's loss is that of the tokens in its second half, with the first half as context.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpt2viz.arrays import Numbers, Pairs
from gpt2viz.errors import ArgumentError
from gpt2viz.labels import pluralize, sentence
from gpt2viz.model import devices
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.network import Mask
from gpt2viz.model.transformer import Block, Transformer
from gpt2viz.run.forward import RUN_LOCK, listening
from gpt2viz.run.hooks import network_graph
from gpt2viz.run.stages import module_of

#: The distances of a head, in the order of the arrays.
MEASURES = ("own output", "own pattern", "output", "pattern")
#: Both models' mean losses, in nats, each on the second half of a text.
LOSSES = ("before", "after")


def check_comparable(before: Model, after: Model) -> None:
    """Raise ``ArgumentError`` unless both have the same sizes and tokenize alike."""
    sizes = [(type(m.config), list(m.config.tensors())) for m in (before, after)]
    if sizes[0] != sizes[1]:
        raise ArgumentError(sentence("changes.sizes", before=before.name, after=after.name))
    if not before.tokenizer.cuts_like(after.tokenizer):
        raise ArgumentError(sentence("changes.tokenizers", before=before.name, after=after.name))


class WeightChange(NamedTuple):
    """The change of one tensor of weights: |after − before| as a share of |before|, and its rank:
    the fewest directions that hold 99 % of the squared change; None for a vector.
    """

    name: str
    size: tuple[int, ...]
    relative: float
    rank: int | None


class _Layer(NamedTuple):
    """A layer's attention on texts: its input and outputs.

    The ``stream`` (B, T, C) before it, its ``weights`` (B, nh, T, T), and its heads' ``outputs``
    before they are merged (B, nh, T, hs).
    """

    stream: Tensor
    weights: Tensor
    outputs: Tensor


class Pair(NamedTuple):
    """Two networks, and what is the same for all texts.

    ``equal`` are the layers whose heads are all equal. ``writing`` are factors R (nh, 2 · hs, ·) of
    each layer's [W_O after; W_O after − W_O before]: the length of a change in a head's output,
    z' W' − z W = (z' − z) W' + z (W' − W), is that of [z' − z, z] R, which has fewer channels.
    """

    before: Transformer
    after: Transformer
    equal: frozenset[int]
    writing: list[Tensor]

    @classmethod
    def of(cls, before: Model, after: Model) -> Pair:
        """The networks of two models."""
        equal = np.flatnonzero(equal_heads(before, after).all(axis=1))
        writing = []
        for layer in range(before.config.n_layer):
            W, old = after.output_weights(layer)[0], before.output_weights(layer)[0]  # (nh, hs, C)
            stacked = torch.cat([W, W - old], dim=1)  # (nh, 2 · hs, C)
            writing.append(torch.linalg.qr(stacked.mT.detach(), mode="r").R.mT.contiguous())
        return cls(before.network, after.network, frozenset(equal.tolist()), writing)

    def distances(self, ids: Tensor) -> Numbers:
        """``MEASURES`` and ``LOSSES`` of token ids (B, T), one row of numbers each."""
        base, *losses = _run(self.before, ids)
        changed, loss = _run(self.after, ids)
        with torch.inference_mode():
            moved = [self._compare(base, layers) for layers in (self._rerun(base), changed)]
            losses.append(loss)
            numbers = torch.cat([*(part.flatten(1) for part in moved), *losses], dim=1)
        return devices.double(numbers)

    def own_output(self, ids: Sequence[int], layer: int, head: int) -> Numbers:
        """The distance of a head's own output at each token of one text: (T,)."""
        base, _ = _run(self.before, torch.tensor([[*ids]], device=self.before.device))
        with torch.inference_mode():
            apart = output_distance(base[layer], self._rerun(base)[layer], self.writing[layer])
        return devices.double(apart[0, head])

    def _rerun(self, base: Sequence[_Layer]) -> list[_Layer]:
        """Run each attention of ``after`` on the streams of ``before``."""
        T = base[0].stream.shape[1]
        mask = Mask.of(T, torch.arange(T, device=base[0].stream.device), explicit=True)
        own = list(base)
        for n in {*range(len(base))} - self.equal:
            block, stream = self.after.blocks[n], base[n].stream
            names = _heads_of(self.after, n)
            with RUN_LOCK, torch.inference_mode(), listening(self.after, names) as made:
                block.attention(block.attention_norm(stream), mask)
            own[n] = _Layer(stream, *(made[name] for name in names))
        return own

    def _compare(self, base: Sequence[_Layer], other: Sequence[_Layer]) -> Tensor:
        """The outputs' and the patterns' distances: (B, 2, L, nh)."""
        outputs, patterns = [], []
        for a, b, R in zip(base, other, self.writing, strict=True):
            outputs.append(output_distance(a, b, R).mean(-1))  # (B, nh)
            patterns.append((a.weights - b.weights)[:, :, 1:].abs().sum(-1).mean(-1) / 2)
        return torch.stack([torch.stack(outputs, 1), torch.stack(patterns, 1)], 1)


def _heads_of(network: Transformer, layer: int) -> list[str]:
    """The modules that output a layer's weights, and its heads' outputs."""
    graph = network_graph(network)
    return [module_of(graph, name, layer) for name in ("weights", "head_output")]


def _run(network: Transformer, ids: Tensor) -> tuple[list[_Layer], Tensor]:
    """Run a network on ids (B, T): its layers, and each text's mean loss in nats (B, 1)."""
    graph, half = network_graph(network), ids.shape[1] // 2
    end = module_of(graph, "final_norm", None)
    names = [
        [module_of(graph, "residual_in", layer), *_heads_of(network, layer)]
        for layer in range(network.config.n_layer)
    ]
    with RUN_LOCK, torch.inference_mode(), listening(network, [*chain(*names), end]) as made:
        network(ids, explicit=True, last_only=True)
        predicted = network.lm_head(made[end][:, max(0, half - 1) : -1]).flatten(0, 1)
        came = ids[:, max(1, half) :]
        losses = F.cross_entropy(predicted.float(), came.flatten(), reduction="none")
    layers = [_Layer(*(made[name] for name in of_layer)) for of_layer in names]
    return layers, losses.view_as(came).mean(1, keepdim=True)


def output_distance(a: _Layer, b: _Layer, R: Tensor) -> Tensor:
    """The distance of every head's outputs at each token, by a layer of ``writing``: (B, nh, T)."""
    apart = torch.cat([b.outputs - a.outputs, a.outputs], dim=-1) @ R  # (B, nh, T, ·)
    distance: Tensor = apart.norm(dim=-1) / a.stream.norm(dim=-1)[:, None]
    return distance


def weight_changes(before: Model, after: Model) -> tuple[WeightChange, ...]:
    """The change of every tensor of weights, in the network's order; a tied matrix once."""
    pairs = zip(before.network.named_parameters(), after.network.named_parameters(), strict=True)
    return tuple(_weight_change(name, a, b) for (name, a), (_, b) in pairs)


def _weight_change(name: str, a: Tensor, b: Tensor) -> WeightChange:
    if torch.equal(a, b):
        return WeightChange(name, tuple(a.shape), 0.0, None if a.ndim < 2 else 0)
    with torch.no_grad():
        change = b.double() - a.double()
        relative = float(change.norm() / a.double().norm())
        if a.ndim < 2:
            return WeightChange(name, tuple(a.shape), relative, None)
        change = change if change.shape[0] >= change.shape[1] else change.t()
        squares = torch.linalg.eigvalsh(change.t() @ change).flip(0).clamp(min=0)
        held = squares.cumsum(0) / squares.sum()
    return WeightChange(name, tuple(a.shape), relative, int((held < 0.99).sum()) + 1)


def equal_heads(before: Model, after: Model) -> Pairs:
    """True for every head whose weights, with the norm before them, are bit for bit the same:
    (n_layer, n_head)."""
    equal = np.zeros((before.config.n_layer, before.config.n_head), dtype=bool)
    for layer, (a, b) in enumerate(zip(before.network.blocks, after.network.blocks, strict=True)):
        norms = [(x.attention_norm, *map(x.attention.head_norm, "qk")) for x in (a, b)]
        if not all(x is y or equal_weights(x, y) for x, y in zip(*norms, strict=True) if x and y):
            continue
        writing = zip(before.output_weights(layer)[0], after.output_weights(layer)[0], strict=True)
        for head, pair in enumerate(writing):
            reading = [
                [w for into in "qkv" for w in x.attention.input_weights(into, head)] for x in (a, b)
            ]
            equal[layer, head] = torch.equal(*pair) and all(map(torch.equal, *reading))
    return equal


def equal_mlps(a: Block, b: Block) -> bool:
    """True if two layers' MLPs, with the norm before them, are bit for bit the same."""
    return equal_weights(a.mlp_norm, b.mlp_norm) and equal_weights(a.mlp, b.mlp)


def equal_weights(a: nn.Module, b: nn.Module) -> bool:
    """True if all their weights are bit for bit the same."""
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def equal_words(before: Model, after: Model) -> str:
    """Say which layers and heads are bit for bit the same; "" if none is."""
    if equal_weights(before.network, after.network):
        return sentence("changes.equal", before=before.name, after=after.name)
    pairs = zip(before.network.blocks, after.network.blocks, strict=True)
    layers = [n for n, pair in enumerate(pairs) if equal_weights(*pair)]
    equal = np.argwhere(equal_heads(before, after)).tolist()
    heads = [f"{layer}.{head}" for layer, head in equal if layer not in layers]
    parts = [f"{pluralize(len(layers), 'layers')} ({_ranges(layers)})"] if layers else []
    if heads:
        counted = pluralize(len(heads), "heads of other layers" if layers else "heads")
        parts.append(counted + (f" ({', '.join(heads)})" if len(heads) <= 8 else ""))
    return sentence("changes.equal_parts", parts=" and ".join(parts)) if parts else ""


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in words, such as "0 to 11, 13"."""
    consecutive = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    runs = [[n for _, n in run] for _, run in consecutive]
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def rounding(before: Model, after: Model, sample: Sequence[Sequence[int]]) -> Numbers:
    """Each distance that rounding alone would give, as in a row of ``Pair.distances``.

    ``before`` is compared with itself, each weight changed by a random error as large as storing it
    in 16 bits causes: bfloat16 if either model's weights are of that format, else float16. The mean
    over a ``sample`` of passages, given as ids.
    """
    weights = (model.network.embedding.weight for model in (before, after))
    coarse = any(torch.equal(weight, weight.bfloat16().float()) for weight in weights)
    rounded = replace(before, network=deepcopy(before.network))
    network, seed = rounded.network, torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in network.parameters():
            power = torch.frexp(weight).exponent
            power = power - 8 if coarse else (power - 11).clamp(min=-24)
            error = torch.rand(weight.shape, generator=seed).to(weight.device) - 0.5
            weight.add_((error * torch.exp2(power.double()) * (weight != 0)).to(weight.dtype))
    compare = Pair.of(before, rounded)
    rows = [compare.distances(torch.tensor([[*ids]], device=network.device))[0] for ids in sample]
    floor: Numbers = np.mean(rows, axis=0)
    return floor
