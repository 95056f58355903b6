"""NaN and infinity in a run: weights can be so large that float32 overflows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpt2viz.arrays import Array
from gpt2viz.run.stages import module_names
from gpt2viz.run.trace import Trace


@dataclass(frozen=True)
class NotFinite:
    """A tensor of a run that holds NaN or infinity.

    ``label`` is the stage's name, ``layer`` the one it belongs to, if any, ``n_nan`` and
    ``n_infinite`` of its ``n_numbers`` are not finite.
    """

    label: str
    layer: int | None
    n_nan: int
    n_infinite: int
    n_numbers: int

    def __str__(self) -> str:
        where = "" if self.layer is None else f" of layer {self.layer}"
        counts = {"NaN": self.n_nan, "infinite": self.n_infinite}
        what = " and ".join(f"{n:,} {kind}" for kind, n in counts.items() if n)
        return f"{self.label}{where}: of {self.n_numbers:,} numbers {what}"


def first_not_finite(trace: Trace) -> NotFinite | None:
    """The first tensor of the run that isn't finite; None if its outputs are finite.

    A masked score is −∞ by design and doesn't count. NaN and infinity propagate from tensor to
    tensor, so if the last ones are finite no earlier one is checked.
    """
    ends = (trace.stage("final_norm"), trace.next_token_probabilities)
    if all(np.isfinite(array).all() for array in ends):
        return None
    for label, layer, array in _stages(trace):
        finite = np.isfinite(array)
        if not finite.all():
            n_nan = int(np.isnan(array).sum())
            return NotFinite(label, layer, n_nan, int((~finite).sum()) - n_nan, array.size)
    raise AssertionError("one of the last tensors was not finite")


def _stages(trace: Trace) -> Iterator[tuple[str, int | None, Array]]:
    for _, stage, layer in module_names(trace.config.n_layer, trace.graph):
        if stage.keep and stage.masked != "−∞":
            yield stage.label, layer, trace.stage(stage.key, layer)
    yield "Probabilities of the next token", None, trace.next_token_probabilities
