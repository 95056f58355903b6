"""A head's weights as they act on the stream: LayerNorm's own weights folded into them.

LayerNorm takes the mean away, divides by σ, scales by a gain and adds a bias. All but the division
is linear, and belongs to the matrix that reads its output. TransformerLens calls this ``fold_ln``
and ``center_writing_weights``; the matrices here are its ``W_Q``, ``W_K``, ``W_V``, ``W_O`` and
``b_Q``, ``b_K``, ``b_V`` after both.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpt2viz.errors import PlaceError
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import double

Numbers = NDArray[np.float64]
#: What a head makes of the stream that it reads.
Into = Literal["q", "k", "v"]


def reading(model: Model, layer: int, head: int, into: Into) -> tuple[Numbers, Numbers]:
    """W_Q, W_K or W_V of a head with ln_1's centring and gain folded in (C, hs), and what is read
    whatever was written: ln_1's bias through it, and its own (hs,).
    """
    C, hs = model.config.n_embd, model.config.head_dim
    start = "qkv".index(into) * C + head * hs
    network = model.network
    rows = slice(start, start + hs)
    W = double(network.get_parameter(f"h.{layer}.attn.c_attn.weight")[rows]).T  # (C, hs)
    b = double(network.get_parameter(f"h.{layer}.attn.c_attn.bias")[rows])
    gain = double(network.get_parameter(f"h.{layer}.ln_1.weight"))
    bias = double(network.get_parameter(f"h.{layer}.ln_1.bias"))
    read = gain[:, None] * W
    return read - read.mean(axis=0), bias @ W + b


def writing(model: Model, layer: int, head: int) -> Numbers:
    """W_O of a head (hs, C), centred: no LayerNorm reads what all channels of the stream share."""
    W_O = double(model.merging(layer)[0][head])  # (hs, C)
    centred: Numbers = W_O - W_O.mean(axis=1, keepdims=True)
    return centred


def check_head(model: Model, layer: int, head: int) -> None:
    """Raise ``PlaceError`` for a layer or head that isn't there."""
    config = model.config
    for name, given, n in (("layer", layer, config.n_layer), ("head", head, config.n_head)):
        if not 0 <= given < n:
            raise PlaceError(f"no {name} {given}: this model has {name}s 0 to {n - 1}")
