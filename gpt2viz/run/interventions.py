"""The changes that edits make to the tensors of a run.

Edits of the mask are not here: the model takes those as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.errors import ArgumentError
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.edit_kinds import OtherRuns
from gpt2viz.run.edits import Edit
from gpt2viz.run.hooked import Hook
from gpt2viz.run.hooks import network_graph
from gpt2viz.run.means import Reference, mean_output
from gpt2viz.run.stages import Site, module_of, stream_before
from gpt2viz.run.trace import Trace

#: Maps a module's output to what replaces it, of the same shape.
Change = Callable[[Tensor], Tensor]


def changes(
    edits: Iterable[Edit], model: Model, reference: Reference | None, source: Trace | None = None
) -> Iterator[tuple[str, Change]]:
    """(module name, change of its output) for every edit of a head or a layer, in their order.

    ``reference`` gives the means that replace heads, ``source`` is the run of as many tokens that
    patches copy from. A head's keys and values are those of its group. Raises ``ArgumentError``
    where one is needed and missing; a change raises ``PluginError`` where another package's
    function fails.
    """
    graph = network_graph(model.network)
    others = OtherRuns(
        partial(mean_output, cast("Reference", reference)),
        partial(activation, cast("Trace", source)),
    )
    given = {"reference": reference, "second text": source}
    for edit in edits:
        takes = edit.declared.takes
        if takes and given[takes] is None:
            raise ArgumentError(f"{edit} needs a run of the {takes}, to take its piece from")
        if isinstance(edit, Hook):
            yield module_of(graph, edit.stage or "", edit.layer), edit.apply
        elif edit.declared.change is not None:
            stage = edit.stage or edit.declared.stage
            if stage in graph and graph[stage].of_group and edit.head is not None:
                edit = replace(edit, head=model.config.group_of(edit.head))
            yield module_of(graph, stage, edit.layer or 0), partial(_apply_edit, edit, others)


def _apply_edit(edit: Edit, others: OtherRuns, made: Tensor) -> Tensor:
    changed, change = made.clone(), edit.declared.change
    if change is not None:
        change(edit, changed, others)
    return changed


def activation(run: Trace, target: str, layer: int) -> Array:
    """A patch target in one layer of a run: (T, C) or (nh, T, ·)."""
    site = stream_before(layer) if target == "residual_in" else (target, layer)
    stage = run.stage(*cast("Site", site))
    own: Array = stage[0].copy()  # torch warns of read-only arrays
    return own
