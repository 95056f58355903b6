"""Run the network: one run at a time, with hooks that last for that run only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor

from gpt2viz.arrays import Array, Numbers, Pairs
from gpt2viz.errors import EditError
from gpt2viz.model import devices, tuning
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import to_numpy
from gpt2viz.model.network import Mask, Past
from gpt2viz.model.transformer import Transformer
from gpt2viz.run.derived import FROM_HEADS, FROM_STREAM
from gpt2viz.run.hooks import Recording, network_graph, recording
from gpt2viz.run.interventions import Change
from gpt2viz.run.stages import module_of


class RunLock:
    """A lock that raises an error in a thread that already holds it."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0

    def __enter__(self) -> None:
        """Wait for the lock. Raises ``EditError`` if called by a function that a run calls."""
        if self._owner == threading.get_ident():
            raise EditError("A function that changes a run can't run a model itself.")
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_error: object) -> None:
        self._owner = 0
        self._lock.release()


#: Held while a network is run or hooked. Hooks belong to the module, not to the thread: two
#: concurrent runs of one model would write into each other's trace, without any error.
RUN_LOCK = RunLock()


def run_texts(
    network: Transformer,
    ids: Sequence[list[int]],
    causal: bool,
    explicit: bool,
    hidden: Pairs | None,
    changes: Sequence[tuple[str, Change]],
    past: Sequence[Past] | None = None,
) -> tuple[Tensor, Recording]:
    """Run texts of the same length: logits (B, 1, n_vocab), and one recording of all.

    ``past`` has each layer's keys and values of the tokens before ``ids``.
    """
    device, n_tokens = network.device, len(ids) * len(ids[0])
    n_whole = n_tokens + (past[0].k.shape[2] if past else 0)
    left_out = () if explicit else (*FROM_STREAM, *(() if changes else FROM_HEADS))
    if any(name.endswith(FROM_STREAM) for name, _ in changes):
        left_out = ()  # the stream no longer follows from what was added to it
    with (
        devices.require_memory(f"{n_whole:,} tokens", device),
        RUN_LOCK,
        torch.inference_mode(),
        tuning.threads(n_tokens * 12 * network.config.n_layer * network.config.n_embd**2),
        _changing(network, changes),  # first, so that the recording gets the changed tensors
        recording(network, left_out) as record,
    ):
        batch = torch.tensor(ids).to(device)  # (B, T)
        pairs = None if hidden is None else torch.tensor(hidden).to(device)  # (T, T)
        logits = network(  # (B, 1, n_vocab)
            batch,
            causal=causal,
            explicit=explicit,
            last_only=True,
            forbidden=pairs,
            past=past,
        )
    return logits, record


def run_from(
    model: Model,
    streams: Mapping[int, Tensor],
    changes: Sequence[tuple[str, Change]],
    *,
    causal: bool,
    explicit: bool,
    hidden: Pairs | None = None,
    past: Sequence[Past] = (),
) -> Array:
    """Resume a model from some layers: streams (b, T, C) before each -> last logits (B, n_vocab).

    A layer's streams are appended to the batch of those from earlier layers; B counts all.
    ``changes`` apply to the outputs, (b, …), of modules in these and later layers, and ``hidden``
    (T, T) is what edits hide. ``past`` has each layer's queries, keys and values of the tokens
    before those of the streams, the same in all B. Nothing of the run is recorded.
    """
    network, layer = model.network, min(streams)
    x = streams[layer][:0]
    B, (_, T, C) = sum(map(len, streams.values())), x.shape
    pairs = None if hidden is None else torch.tensor(hidden).to(x.device)  # (T, T)
    with (
        devices.require_memory(f"{B} runs of {T:,} tokens", x.device),
        RUN_LOCK,
        torch.inference_mode(),
        tuning.threads(B * T * 12 * (network.config.n_layer - layer) * C**2),
        _changing(network, changes),
    ):
        whole = T + (past[0].k.shape[2] if past else 0)
        positions = torch.arange(whole, device=x.device)
        mask = Mask.of(whole if explicit else T, positions, causal, explicit, pairs)
        for n, block in enumerate(network.blocks[layer:], start=layer):
            x = torch.cat([x, streams[n]]) if n in streams else x  # (b, T, C)
            before = past[n]._replace(q=past[n].q if explicit else None) if past else None
            x = block(x, mask, before and before.expand(len(x)))  # (b, T, C)
        logits: Tensor = network.lm_head(network.final_norm(x[:, -1]))  # (B, n_vocab)
    return to_numpy(logits)


def gradients(
    model: Model,
    ids: Sequence[int],
    module_names: Sequence[str],
    metric: Callable[[Tensor], Tensor],
    changes: Sequence[tuple[str, Change]],
    *,
    causal: bool,
    hidden: Pairs | None = None,
) -> list[Numbers]:
    """The gradients of a metric with respect to modules' outputs, without the batch axis.

    ``metric`` maps the logits (B, n_vocab) after the last token to a number. The other arguments
    are as for ``run_from``.
    """
    network, made = model.network, dict[str, Tensor]()
    device = network.device
    pairs = None if hidden is None else torch.tensor(hidden).to(device)  # (T, T)

    def keep(name: str, output: Tensor) -> Tensor:
        # The weights require no gradient: the graph begins at the first of these outputs.
        made[name] = output if output.requires_grad else output.detach().requires_grad_()
        return made[name]

    start = module_of(network_graph(network), "embedding", None)
    first = (start,) if start not in module_names else ()
    listening = [(name, partial(keep, name)) for name in (*first, *module_names)]
    with (
        devices.require_memory(f"gradients of {len(ids):,} tokens", device),
        RUN_LOCK,
        torch.inference_mode(False),
        torch.enable_grad(),
        _changing(network, [*changes, *listening]),
    ):
        batch = torch.tensor([list(ids)]).to(device)  # (B, T)
        logits = network(batch, causal=causal, explicit=True, last_only=True, forbidden=pairs)
        slopes = torch.autograd.grad(
            metric(logits[:, -1]),
            [made[name] for name in module_names],
            materialize_grads=True,  # 0 where a change cut off the effect
        )
    return [devices.double(slope[0]) for slope in slopes]


@contextmanager
def _changing(
    network: Transformer, changes: Iterable[tuple[str, Callable[[Tensor], Tensor | None]]]
) -> Iterator[None]:
    """Apply every change to its module's output for the duration of one run."""
    with ExitStack() as hooks:
        for name, change in changes:
            handle = network.get_submodule(name).register_forward_hook(
                lambda _module, _inputs, output, change=change: change(output)
            )
            hooks.callback(handle.remove)
        yield


@contextmanager
def listening(network: Transformer, module_names: Iterable[str]) -> Iterator[dict[str, Tensor]]:
    """Collect the last outputs of some modules, by name, for a caller that holds ``RUN_LOCK`` or
    owns the network."""
    made: dict[str, Tensor] = {}
    with _changing(network, [(name, partial(made.__setitem__, name)) for name in module_names]):
        yield made
