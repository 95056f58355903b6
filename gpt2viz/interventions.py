"""What an edit does to the tensor that a part of the model puts out.

Edits of the mask are not here: the model takes those as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from gpt2viz.edits import Edit
from gpt2viz.traces import Array, Trace

#: From what the module made to what goes on in its place, of the same shape.
Change = Callable[[Tensor], Tensor]

_OTHER = "{}: the reference run is of a model with other sizes"


def changes(edits: Iterable[Edit], reference: Trace | None) -> Iterator[tuple[str, Change]]:
    """(module name, change of its output) for every edit of a head or a layer, in their order.

    ``reference`` is the run whose means stand in for heads. Raises ``ValueError`` where one is
    needed and missing, or is of a model with other sizes.
    """
    for edit in edits:
        if edit.kind in ("attn", "mlp"):
            yield f"h.{edit.layer}.{edit.kind}", torch.zeros_like
        elif edit.head is not None:
            yield f"h.{edit.layer}.attn.attend.head_output", _of_head(edit, reference)


def _of_head(edit: Edit, reference: Trace | None) -> Change:
    mean = _mean(edit, reference) if edit.kind == "mean" else None

    def change(heads: Tensor) -> Tensor:
        if mean is not None and mean.shape != heads.shape[-1:]:
            raise ValueError(_OTHER.format(edit))
        changed = heads.clone()  # (B, nh, T, hs)
        if mean is not None:
            changed[:, edit.head] = torch.tensor(mean).to(heads.device, heads.dtype)
        elif edit.kind == "off":
            changed[:, edit.head] = 0  # and not times 0, which leaves NaN
        else:
            changed[:, edit.head] *= edit.factor or 0.0
        return changed

    return change


def _mean(edit: Edit, reference: Trace | None) -> Array:
    """The head's output (hs,), mean over all tokens of the reference run."""
    if reference is None:
        raise ValueError(f"{edit} needs a reference run")
    try:
        mean: Array = reference.stage("head_output", edit.layer)[0, edit.head].mean(axis=0)
    except IndexError:
        raise ValueError(_OTHER.format(edit)) from None
    return mean
