"""What an edit does to the tensor that a part of the model puts out.

Edits of the mask are not here: the model takes those as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from gpt2viz.errors import ArgumentError
from gpt2viz.run.edit_kinds import EditKind
from gpt2viz.run.edits import Edit
from gpt2viz.run.hooked import Hook
from gpt2viz.run.means import Reference, mean_output
from gpt2viz.run.pieces import module_of, piece
from gpt2viz.run.trace import Trace

#: From what the module made to what goes on in its place, of the same shape.
Change = Callable[[Tensor], Tensor]


def changes(
    edits: Iterable[Edit], reference: Reference | None, source: Trace | None = None
) -> Iterator[tuple[str, Change]]:
    """(module name, change of its output) for every edit of a head or a layer, in their order.

    ``reference`` is what the means that stand in for heads are taken from, ``source`` the run of
    as many tokens that patches take their pieces from. Raises ``ArgumentError`` where one is needed
    and missing; a change raises ``PluginError`` where a function of others fails.
    """
    for edit in edits:
        if isinstance(edit, Hook):
            yield edit.module, edit.changed
        elif edit.stage is not None and edit.layer is not None:
            yield module_of(edit.stage, edit.layer), _patch(edit, source)
        elif edit.own is not None and edit.layer is not None:
            yield module_of(edit.own.stage, edit.layer), _own(edit.own, edit.head or 0)
        elif edit.kind in ("attn", "mlp"):
            yield f"h.{edit.layer}.{edit.kind}", torch.zeros_like
        elif edit.head is not None:
            yield f"h.{edit.layer}.attn.attend.head_output", _of_head(edit, reference)


def _of_head(edit: Edit, reference: Reference | None) -> Change:
    if edit.kind == "mean" and reference is None:
        raise ArgumentError(f"{edit} needs a reference run")
    layer, head = edit.layer or 0, edit.head or 0

    def change(heads: Tensor) -> Tensor:
        changed = heads.clone()  # (B, nh, T, hs)
        if edit.kind == "mean" and reference is not None:
            mean = mean_output(reference, layer, head, heads.shape[2])
            changed[:, head] = torch.tensor(mean).to(heads.device, heads.dtype)
        elif edit.kind == "off":
            changed[:, head] = 0  # and not times 0, which leaves NaN
        else:
            changed[:, head] *= edit.factor or 0.0
        return changed

    return change


def _own(kind: EditKind, head: int) -> Change:
    def change(heads: Tensor) -> Tensor:
        changed = heads.clone()  # (B, nh, T, hs)
        changed[:, head] = kind.changed(heads[:, head])
        return changed

    return change


def _patch(edit: Edit, source: Trace | None) -> Change:
    if source is None or edit.stage is None or edit.layer is None:
        raise ArgumentError(f"{edit} needs a run to take its piece from")
    positions = slice(None) if edit.position is None else edit.position
    index = (positions,) if edit.head is None else (edit.head, positions)
    new = torch.from_numpy(piece(source, edit.stage, edit.layer)[index].copy())

    def change(made: Tensor) -> Tensor:
        changed = made.clone()  # (B, T, C) or (B, nh, T, ·)
        changed[0, *index] = new.to(made.device, made.dtype)
        return changed

    return change
