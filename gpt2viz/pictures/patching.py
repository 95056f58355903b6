"""Maps of the pieces that an answer depends on: the share of it that each recovers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpt2viz.arrays import Numbers
from gpt2viz.labels import percent, pluralize, shorten
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Curve, Curves, Heatmaps
from gpt2viz.run.edit_kinds import STREAMS, target_label
from gpt2viz.run.edits import Edit

if TYPE_CHECKING:  # torch stays out of the pictures
    from gpt2viz.analysis.direct_paths import PathSweep
    from gpt2viz.analysis.fewest_heads import FewestHeads
    from gpt2viz.analysis.patching import PatchSweep
    from gpt2viz.analysis.restored import Restored

#: The parts of a head that read the stream.
READS: Mapping[str, str] = {"q": "queries", "k": "keys", "v": "values"}
#: The quantity of a cell.
QUANTITY = "share of the answer"


@dataclass(frozen=True, eq=False)
class Shares:
    """The share by which every patch of a stage moves the metric to the other run's.

    ``values`` is (layers, T) for the stream and (layers, n_head) for heads: 0 leaves the answer
    unchanged, 1 makes it the other run's. Layers without any number yet are left out. The first
    ``exact`` layers were run; the others are estimated.
    """

    stage: str
    values: Numbers
    exact: int

    @property
    def title(self) -> str:
        """The name of the stage, and of the part that is an estimate."""
        name, layers = target_label(self.stage), len(self.values)
        if self.exact == layers:
            return name
        return f"{name}: first-order estimate{f' from layer {self.exact} on' * bool(self.exact)}"


def patched_shares(sweep: PatchSweep | PathSweep) -> Numbers:
    """The share of the way from the patched run to the one that the piece comes from."""
    shares: Numbers
    shares = sweep.restored if sweep.direction == "denoise" else 1 - sweep.restored
    return shares


def shares(stage: str, sweep: PatchSweep | None, estimate: PatchSweep | None) -> Shares | None:
    """A stage's shares: of the layers that were run, then estimates; None if there are none.

    An unfinished ``sweep`` counts by its complete layers.
    """
    done = 0 if sweep is None else int(np.isfinite(sweep.values).all(axis=1).cumprod().sum())
    parts = [] if sweep is None else [patched_shares(sweep)[:done]]
    parts += [] if estimate is None else [patched_shares(estimate)[done:]]
    values = np.concatenate(parts) if parts else np.empty((0, 0))
    return Shares(stage, values, done) if len(values) else None


def pair_labels(clean: Sequence[str], corrupted: Sequence[str]) -> list[str]:
    """Label the tokens of two texts: once if they are the same, else both, in 14 characters."""
    return [
        a if a == b else f"{shorten(a, max(5, 11 - len(b)))} / {shorten(b, max(6, 11 - len(a)))}"
        for a, b in zip(clean, corrupted, strict=True)
    ]


def share_maps(
    what: str,
    known: Sequence[Shares],
    labels: Sequence[str],
    at: Edit | None,
    *,
    least: float,
    height: int,
) -> Heatmaps:
    """A matrix for each stage: layers down, the ``labels`` of tokens or of heads across.

    The scale reaches to ``least`` at least; the cell of the chosen patch, ``at``, is framed.
    A click carries its stage, its layer as row and its token or head as column.
    """
    of_tokens = known[0].stage in STREAMS
    panels = [
        Panel(
            title=share.title,
            values=share.values.astype(np.float32),
            rows=Axis("layer", [str(n) for n in range(len(share.values))]),
            columns=Axis("token" if of_tokens else "head", labels),
            name=share.stage,
            quantity=QUANTITY,
            least=least,
        )
        for share in known
    ]
    stages = [share.stage for share in known]
    chosen = at if at is not None and at.stage in stages else None
    return Heatmaps(
        what,
        panels,
        scale="signed",
        n_columns=len(panels),
        height=height,
        row=None if chosen is None else chosen.layer,
        column=None if chosen is None else chosen.position if of_tokens else chosen.head,
        framed_in="" if chosen is None else chosen.stage or "",
        numbers=12,
        bar=QUANTITY,
        legend=False,
    )


def peak(known: Sequence[Shares]) -> float:
    """The largest absolute share; at least 1."""
    largest = [float(np.abs(share.values).max(initial=0).astype(np.float32)) for share in known]
    return max([1.0, *largest])


def path_maps(what: str, restored: Numbers, *, height: int) -> Heatmaps:
    """Shares (3, layers, n_head) of paths into a head's q, k and v, from every earlier head.

    A click carries the earlier head's layer as row and its number as column.
    """
    heads = [str(n) for n in range(restored.shape[2])]
    panels = [
        Panel(
            title=f"Through its {reads}",
            values=values.astype(np.float32),
            rows=Axis("layer", [str(n) for n in range(len(values))]),
            columns=Axis("head", heads),
            name=name,
            quantity=QUANTITY,
        )
        for (name, reads), values in zip(READS.items(), restored, strict=True)
    ]
    return Heatmaps(
        what, panels, scale="signed", n_columns=len(panels), height=height, numbers=6, bar=QUANTITY,
        legend=False,
    )  # fmt: skip


def undone_curve(what: str, result: Restored) -> Curves:
    """The share of a change that is undone, over the number of pieces that are restored."""
    back = ["nothing put back", *(f"{name} put back" for name in result.names)]
    hover = [
        f"{percent(share, 1)}\n{last}" for share, last in zip(result.undone, back, strict=True)
    ]
    put = list(range(len(back)))
    curve = Curve("", put, result.undone.tolist(), "accent", hover, point="circle")
    lowest = 0 if result.undone.min() >= 0 else None
    return Curves(what, [curve], "pieces put back", "share undone", height=240, lowest=lowest)


def faithfulness_curve(what: str, result: FewestHeads) -> Curves:
    """The share of an answer that is kept, over the number of heads that are left."""
    left = [result.n_heads - n for n in range(len(result.faithfulness))]
    gone = ["", *(f"\nwithout {layer}.{head}" for layer, head in result.given_up)]
    hover = [
        f"{pluralize(n, 'heads')} left: {percent(share, 1)}{last}"
        for n, share, last in zip(left, result.faithfulness, gone, strict=True)
    ]
    curve = Curve("", left, result.faithfulness.tolist(), "accent", hover, point="circle")
    lowest = 0 if result.faithfulness.min() >= 0 else None
    return Curves(what, [curve], "heads left", "share of the answer", height=240, lowest=lowest)
