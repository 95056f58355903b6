"""A score taken apart, as a picture: the query's parts down, the key's across, sums at the ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array
from gpt2viz.pictures.every_head import Arrow, Thumbnails
from gpt2viz.pictures.panel import Axis, Mask, Panel
from gpt2viz.pictures.picture import Heatmaps

if TYPE_CHECKING:  # torch stays out of the pictures
    import pandas as pd

    from gpt2viz.analysis.reasons import Hop, Read, Reason

#: Parts of a side that have a row or column of their own; the others stand together in one more.
MOST = 32
#: What these are called, and the sums at the ends.
OTHERS, SUM = "all others", "sum"


def reason_map(case: Reason, *, raw: bool = False) -> Heatmaps:
    """Every pair of parts' addition to a key's score beyond the row's mean; ``raw``, to q·k."""
    row = case.row
    what = f"Score of query {row.query} and key {case.key} in layer {row.layer}, head {row.head}"
    if raw:
        table, quantity = row.table(case.key), "adds to q·k:"
    else:
        table, quantity = case.deviation, "adds to the score beyond the row's mean:"
        what += ", beyond the row's mean"
    return parts_map(f"{what}, by who wrote", row.names, table, quantity)


def parts_map(
    what: str, names: Sequence[str], table: NDArray[np.float64], quantity: str
) -> Heatmaps:
    """A table (n, n) of pairs of parts, with its sums in one more row and column.

    A side with more than ``MOST`` parts shows those whose numbers are largest, in their order, and
    the sum of the others in one row or column. The last cell is the sum of all.
    """
    rows, down = _gathered(table, names)
    across_down, across = _gathered(rows.T, names)
    shown = across_down.T
    whole = np.block(
        [
            [shown, shown.sum(axis=1, keepdims=True)],
            [shown.sum(axis=0, keepdims=True), shown.sum(keepdims=True)],
        ]
    )
    with np.errstate(over="ignore"):  # a run whose numbers are too large shows what it has
        values = whole.astype(np.float32)
    panel = Panel(
        title="",
        values=values,
        rows=Axis("the query's part", [*down, SUM], numbered=False),
        columns=Axis("the key's part", [*across, SUM], numbered=False),
        name="parts",
        quantity=quantity,
    )
    return Heatmaps(
        what,
        [panel],
        scale="signed",
        height=min(max(320, 120 + 18 * len(whole)), 520),
        plus=True,
        legend=False,
        rules=((len(down),), (len(across),)),
    )


def _gathered(
    table: NDArray[np.float64], names: Sequence[str]
) -> tuple[NDArray[np.float64], list[str]]:
    """The rows with the largest numbers, and the others as one: up to (MOST + 1, …)."""
    if len(names) <= MOST:
        return table, list(names)
    largest = np.sort(np.argsort(-np.abs(table).max(axis=1), kind="stable")[:MOST])
    others = np.delete(table, largest, axis=0).sum(axis=0)
    return np.vstack([table[largest], others]), [*(names[n] for n in largest), OTHERS]


def path_map(
    hops: Sequence[Hop],
    tiles: Array,
    masked: Mask,
    labels: Sequence[str],
    groups: int | None = None,
) -> Thumbnails:
    """A path of at least one hop on the map of the model: see ``Thumbnails``.

    An arrow for each hop, with its share, from the part that it leads through: a head, or the
    embeddings. An MLP, a bias and what is constant have no place there.
    """
    arrows, start = [], hops[0].step
    for n, hop in enumerate(hops):
        share = f"{100 * hop.by.share:.0f} %"
        to = hop.step.layer, hop.step.head
        if n + 1 < len(hops):
            step = hops[n + 1].step
            arrows.append(Arrow((step.layer, step.head), to, hop.by.share, share))
        elif hop.by.part.kind in ("token", "position"):
            arrows.append(Arrow(None, to, hop.by.share, f"{hop.by.part} {share}"))
    return Thumbnails(
        f"The strongest path to layer {start.layer}, head {start.head}, from query {start.query} "
        f"to key {start.key}",
        tiles,
        masked,
        labels,
        chosen=(start.layer, start.head),
        arrows=arrows,
        groups=groups,
    )


def pair_table(case: Reason) -> pd.DataFrame:
    """``pair_rows`` as a table."""
    import pandas as pd

    return pd.DataFrame(pair_rows(case))


def pair_rows(case: Reason) -> list[dict[str, Any]]:
    """The leading pairs of parts, one row each, with the tokens that their heads had read."""
    labels = case.row.trace.labels
    return [
        {
            "the query's part": pair.query_part,
            "the key's part": pair.key_part,
            "adds": pair.value,
            "share (%)": 100 * pair.share,
            "weight without it": pair.ablated_weight,
            "the query's head had read": _read(pair.query_read, labels),
            "the key's head had read": _read(pair.key_read, labels),
        }
        for pair in case.pairs
    ]


def _read(read: Read | None, labels: Sequence[str]) -> str:
    return "" if read is None else f"{read.token} {labels[read.token]}"
