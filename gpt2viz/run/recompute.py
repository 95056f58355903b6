"""What a long run leaves out, made again from its q, k and v by the model's own attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gpt2viz.arrays import Array, Pairs
from gpt2viz.model.devices import read_only
from gpt2viz.model.network import Attend, hidden_pairs
from gpt2viz.model.threads import threads


def derive(
    qkv: Sequence[Array], divisor: int, causal: bool, hidden: Pairs | None, keys: Sequence[str]
) -> Mapping[str, Array]:
    """Scores to weights from q, k and v (B, nh, T, hs), by the model's own ``Attend``.

    ``divisor`` is ``GPT2Config.layer_divisor``; ``hidden`` (T, T) is True where a key is hidden
    from a query besides the causal mask. Returns the stages ``keys``, of ``FROM_HEADS``, as
    ``STAGES`` declares them. One head after the other: its matrices fit into a core's cache, and
    each takes the memory that the one before let go.
    """
    q, k, v = qkv
    if "head_output" not in keys:
        v = v[..., :0]  # where nobody asks for the output, there is nothing to mix
    n_head, n_queries, hs = q.shape[1:]
    attend, made, found = Attend(divisor).eval(), dict[str, Tensor](), dict[str, Tensor]()
    for key in keys:
        attend.get_submodule(key).register_forward_hook(_keep(made, key))
    with torch.inference_mode(), threads(2 * n_head * n_queries * k.shape[2] * hs):
        pairs = None if hidden is None else torch.tensor(hidden)
        mask = hidden_pairs(n_queries, causal, pairs, torch.device("cpu"))  # once for all heads
        for head in range(n_head):
            one = (torch.from_numpy(x[:, head : head + 1].copy()) for x in (q, k, v))
            attend(*one, causal=False, forbidden=mask)
            for key, output in made.items():
                if head == 0:
                    found[key] = torch.empty(*q.shape[:2], *output.shape[2:])
                found[key][:, head] = output[:, 0]
    return {key: read_only(tensor) for key, tensor in found.items()}


def _keep(made: dict[str, Tensor], key: str) -> Callable[[nn.Module, Any, Tensor], None]:
    return lambda _module, _inputs, output: made.__setitem__(key, output)
