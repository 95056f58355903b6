"""What a long run leaves out, made again from its q, k and v by the model's own attention."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from gpt2viz.model import Attend
from gpt2viz.threads import threads
from gpt2viz.traces import Array, Pairs


def derive(
    qkv: Sequence[Array], divisor: int, causal: bool, hidden: Pairs | None, keys: Sequence[str]
) -> Mapping[str, Array]:
    """Scores to weights from q, k and v (B, nh, T, hs), by the model's own ``Attend``.

    ``divisor`` is ``GPT2Config.layer_divisor``; ``hidden`` (T, T) is True where a key is hidden
    from a query besides the causal mask. Returns the stages ``keys``, of ``FROM_HEADS``, as
    ``STAGES`` declares them. Each core takes one head after the other: its matrices fit into the
    core's cache, those of twelve heads don't.
    """
    q, k, v = qkv
    if "head_output" not in keys:
        v = v[..., :0]  # where nobody asks for the output, there is nothing to mix
    pairs = None if hidden is None else torch.tensor(hidden)
    found: dict[str, Tensor] = {}

    @torch.inference_mode()
    def one(head: int) -> None:
        attend, made = Attend(divisor).eval(), dict[str, Tensor]()
        for key in keys:
            attend.get_submodule(key).register_forward_hook(_keep(made, key))
        attend(*(torch.from_numpy(x[:, head : head + 1].copy()) for x in (q, k, v)), causal, pairs)
        for key, output in made.items():
            if head == 0:
                found[key] = torch.empty(*q.shape[:2], *output.shape[2:])
            found[key][:, head] = output[:, 0]

    with threads(1), ThreadPoolExecutor(os.cpu_count()) as workers:
        one(0)  # it makes room for the others
        list(workers.map(one, range(1, q.shape[1])))
    return {key: read_only(tensor) for key, tensor in found.items()}


def _keep(made: dict[str, Tensor], key: str) -> Callable[[nn.Module, Any, Tensor], None]:
    return lambda _module, _inputs, output: made.__setitem__(key, output)


def read_only(tensor: Tensor) -> Array:
    """A tensor as a float32 array that nobody can write to, without a copy where possible."""
    array: Array = tensor.numpy(force=True)
    array.flags.writeable = False
    return array
