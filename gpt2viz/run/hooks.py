"""Hooks on every declared tensor for one run: they record the tensors, and how each was made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from gpt2viz.model.transformer import Transformer
from gpt2viz.run.captured import Site
from gpt2viz.run.compat import hook, share_memory, unhook
from gpt2viz.run.provenance import Origin, code_of, line_of_model, operation
from gpt2viz.run.stages import STAGE, Stage, formula, graph_of, module_names
from gpt2viz.run.trace import TensorRecord


class Tap(NamedTuple):
    """A declared tensor of one model: all that is known of it before any run.

    ``parameters`` are the ids and sizes of the weights of the module that makes it.
    """

    name: str
    stage: Stage
    layer: int | None
    operation: str
    parameters: tuple[tuple[int, int], ...]


#: A tensor that a run made: its tap, shape and type, the line of the model that made it, and
#: whether it shares the memory of the tensor made before it.
RecordedTensor = tuple[Tap, torch.Size, torch.dtype, Origin, bool]


@dataclass
class Recording:
    """The stages that are kept, by key and layer, and all tensors made, in the run's order."""

    tensors: dict[Site, Tensor] = field(default_factory=dict)
    made: list[RecordedTensor] = field(default_factory=list)

    def of_text(self, row: int) -> Recording:
        """The part of a batch's recording that belongs to one text: views of the same memory."""
        tensors = {
            (key, layer): tensor[row : row + 1] if "B" in STAGE[key].axes else tensor
            for (key, layer), tensor in self.tensors.items()
        }
        made: list[RecordedTensor] = []
        for tap, shape, dtype, origin, shared in self.made:
            own = torch.Size([1, *shape[1:]]) if "B" in tap.stage.axes else shape
            made.append((tap, own, dtype, origin, shared))
        return Recording(tensors, made)


@contextmanager
def recording(network: Transformer, left_out: Collection[str]) -> Iterator[Recording]:
    """Hook every declared tensor, and remove the hooks afterwards.

    Stages in ``left_out`` are recorded by shape only.
    """
    result, taps = Recording(), _taps(network)
    tensors, made = result.tensors, result.made
    keys = {stage.key for stage in STAGE.values() if stage.keep}.difference(left_out)

    # The previous tensor, held so that its memory isn't reused: a view shares memory with its
    # source, or with another view of that, and either was made just before.
    last = torch.empty(0)

    # Kept minimal: it is called so often that each microsecond counts.
    def note(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        nonlocal last
        tap = taps[module]
        shared = share_memory(output, last)
        made.append((tap, output.shape, output.dtype, line_of_model(), shared))
        last = output
        if tap.stage.key in keys:
            tensors[tap.stage.key, tap.layer] = output

    try:
        for module in taps:
            hook(module, note)
        yield result
    finally:
        for module in taps:
            unhook(module)


_known: WeakKeyDictionary[Transformer, dict[nn.Module, Tap]] = WeakKeyDictionary()


def _taps(network: Transformer) -> dict[nn.Module, Tap]:
    if network not in _known:
        modules, config = dict(network.named_modules()), network.config
        _known[network] = {
            modules[name]: Tap(
                name,
                stage,
                layer,
                operation(modules[name], formula(stage, config, layer)),
                tuple((id(p), p.numel()) for p in _maker(modules, name, stage).parameters(False)),
            )
            for name, stage, layer in module_names(config.n_layer, graph_of(modules))
        }
    return _known[network]


def _maker(modules: Mapping[str, nn.Module], name: str, stage: Stage) -> nn.Module:
    """The module that makes a stage: its own, or the projection that is split into heads there."""
    if stage.role and stage.reads == ("ln_1",):
        return modules[f"{name.rpartition('.')[0]}.{stage.role[0]}_proj"]
    return modules[name]


def network_graph(network: Transformer) -> Mapping[str, Stage]:
    """The stages that a model has, by key."""
    return {tap.stage.key: tap.stage for tap in _taps(network).values()}


def whole_table(
    made: Collection[RecordedTensor], masking: str, sizes: Mapping[str, int]
) -> tuple[TensorRecord, ...]:
    """The shape table of a whole text's run, from the recording of its last tokens.

    ``sizes`` are the whole text's, see ``stages.axis_sizes``. Q, K and V are views of one tensor in
    such a run; in this one they were concatenated.
    """
    whole: list[RecordedTensor] = []
    for tap, _, dtype, origin, shared in made:
        shape = torch.Size(sizes[axis] for axis in tap.stage.axes)
        whole.append((tap, shape, dtype, origin, shared or bool(tap.stage.role)))
    return shape_table(whole, masking)


def shape_table(made: Collection[RecordedTensor], masking: str) -> tuple[TensorRecord, ...]:
    """A row for each tensor that a run made; a tied matrix counts where it is used first.

    ``masking`` says how the run masked its scores: see ``stages.masking``. A window is kept.
    """
    rows, seen = [], set[int]()
    for tap, shape, dtype, origin, shared in made:
        new = [(p, n) for p, n in tap.parameters if p not in seen]
        seen.update(p for p, _ in new)
        rows.append(
            TensorRecord(
                name=tap.name,
                key=tap.stage.key,
                layer=tap.layer,
                axes=tap.stage.axes,
                shape=tuple(shape),
                dtype=str(dtype).removeprefix("torch."),
                nbytes=shape.numel() * dtype.itemsize,
                n_parameters=sum(n for _, n in new),
                operation=tap.operation.replace(tap.stage.formula, masking)
                if tap.stage.key == "masked_scores"
                else tap.operation,
                file=Path(origin.file).name,
                line=origin.line,
                code=code_of(origin),
                shared=shared,
            )
        )
    return tuple(rows)
