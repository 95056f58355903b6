"""What happens inside an MLP of a model that is loaded, for one token: its neurons."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.network import ACTIVATION


class Neurons(NamedTuple):
    """The F numbers in the middle of an MLP, ``widened`` and then ``bent`` by the curve: (F,) each.

    ``back`` (C, F) and ``bias`` (C,) make what the MLP adds of them: ``back @ bent + bias``.
    """

    widened: Array
    bent: Array
    back: Array
    bias: Array

    def strongest(self, n: int) -> list[int]:
        """The ``n`` that are furthest from 0 after the curve, the furthest first."""
        return [int(neuron) for neuron in np.argsort(-abs(self.bent), kind="stable")[:n]]


def inside(model: Model, layer: int, stream: Array) -> Neurons:
    """A layer's neurons for a token whose ``stream`` (C,) is that after the layer's attention.

    With the layer's weights, and without its modules: what hooks them is another run.
    """
    config = model.config
    weights = {
        name: weight.detach().to("cpu", torch.float32)
        for name, weight in model.network.h[layer].named_parameters()
        if name.startswith(("ln_2.", "mlp."))
    }

    def of(name: str) -> tuple[Tensor, Tensor]:
        return weights[f"{name}.weight"], weights[f"{name}.bias"]

    with torch.inference_mode():
        x = torch.tensor(stream)  # (C,)
        normed = F.layer_norm(x, x.shape, *of("ln_2"), config.layer_norm_epsilon)  # (C,)
        widened = F.linear(normed, *of("mlp.c_fc"))  # (F,)
        bent = ACTIVATION[config.activation_function]()(widened)  # (F,)
    return Neurons(widened.numpy(), bent.numpy(), *(part.numpy() for part in of("mlp.c_proj")))
