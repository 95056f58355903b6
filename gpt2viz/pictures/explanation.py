"""A decomposed score: its pairs of parts as lines and as a matrix with sums, and its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array, Numbers, Pairs, largest
from gpt2viz.labels import percent, shorten
from gpt2viz.pictures.every_head import Arrow, Thumbnails
from gpt2viz.pictures.lines import Lines, lines
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps

if TYPE_CHECKING:  # torch stays out of the pictures
    import pandas as pd

    from gpt2viz.analysis.explanation import Part, Side
    from gpt2viz.analysis.reasons import Hop, Read, Reason

#: Parts of a side with a row or column of their own; the others are summed in one more.
MOST = 32
#: The same where pairs are lines.
STRANDS = 6
#: The names of these, and of the sums at the ends.
OTHERS, SUM = "all others", "sum"


def strands(case: Reason) -> Lines:
    """The pairs of parts of a reason that has some, as lines from the query's to the key's.

    A line is as wide as the pair's share (%) of all that raise the score, or of all that lower it
    if these prevail. Parts are sorted, strongest first; a side's parts after ``STRANDS`` are
    merged.
    """
    row, verb = case.row, "raises" if case.above else "lowers"
    shares = (case.deviation if case.above else -case.deviation).clip(min=0)
    shares *= 100 / shares.sum()
    orders = [np.argsort(-shares.max(axis=axis), kind="stable") for axis in (1, 0)]
    starts = range(min(STRANDS + 1, len(shares)))
    down = np.add.reduceat(shares[np.ix_(*orders)], starts, axis=0)
    panel = Panel(
        title="",
        values=np.add.reduceat(down, starts, axis=1).astype(np.float32),
        rows=_strand_names(case, "query", orders[0]),
        columns=_strand_names(case, "key", orders[1]),
        name="strands",
        quantity=f"share of what {verb} the score, in percent",
    )
    what = (
        f"Pairs behind query {row.query} and key {case.key} in layer {row.layer}, head {row.head}"
    )
    ends = f"In the query, {_token(case, row.query)}", f"In the key, {_token(case, case.key)}"
    return replace(lines(what, [panel], [panel.quantity], unit=False), ends=ends)


def _strand_names(case: Reason, side: Side, order: NDArray[np.intp]) -> Axis:
    """The first parts in an ``order``, and the others merged."""
    names = [strand_name(case, side, case.row.names[n]) for n in order[:STRANDS]]
    return Axis(f"the {side}'s part", names + [OTHERS] * (len(order) > STRANDS), numbered=False)


def strand_name(case: Reason, side: Side, part: Part) -> str:
    """A part and its effect on a side: "head 0.1 read 9 ·sat"."""
    position = case.row.query if side == "query" else case.key
    if (source := case.sources.get((side, part))) is not None:
        return f"{part} read {_token(case, source.key)}"
    own = {"token": f"token {_token(case, position)}", "position": f"position {position}"}
    return own.get(part.kind, part)


def _token(case: Reason, position: int) -> str:
    return f"{position} {shorten(case.row.trace.labels[position])}"


def reason_map(case: Reason, *, raw: bool = False) -> Heatmaps:
    """Each pair of parts' addition to a key's score beyond the row's mean; ``raw``, to q·k."""
    row = case.row
    what = f"Score of query {row.query} and key {case.key} in layer {row.layer}, head {row.head}"
    if raw:
        table, quantity = row.table(case.key), "adds to q·k:"
    else:
        table, quantity = case.deviation, "adds to the score beyond the row's mean:"
        what += ", beyond the row's mean"
    return parts_map(f"{what}, by who wrote", row.names, table, quantity)


def parts_map(what: str, names: Sequence[str], table: Numbers, quantity: str) -> Heatmaps:
    """A table (n, n) of pairs of parts, with its sums in one more row and column.

    A side with more than ``MOST`` parts shows those with the largest numbers, in their order, and
    the sum of the others in one row or column. The last cell is the sum of all.
    """
    rows, down = _gather(table, names)
    across_down, across = _gather(rows.T, names)
    shown = across_down.T
    whole = np.block(
        [
            [shown, shown.sum(axis=1, keepdims=True)],
            [shown.sum(axis=0, keepdims=True), shown.sum(keepdims=True)],
        ]
    )
    with np.errstate(over="ignore"):  # numbers that are too large are drawn as infinite
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


def _gather(table: Numbers, names: Sequence[str]) -> tuple[Numbers, list[str]]:
    """The rows with the largest numbers, and the sum of the others: up to (MOST + 1, …)."""
    if len(names) <= MOST:
        return table, list(names)
    listed = np.sort(largest(np.abs(table).max(axis=1), MOST))
    others = np.delete(table, listed, axis=0).sum(axis=0)
    return np.vstack([table[listed], others]), [*(names[n] for n in listed), OTHERS]


def path_map(
    hops: Sequence[Hop],
    tiles: Array,
    masked: Pairs,
    labels: Sequence[str],
    groups: int | None = None,
) -> Thumbnails:
    """A path of at least one hop on the map of the model: see ``Thumbnails``.

    An arrow for each hop, with its share, from the part that it leads through: a head, or the
    embeddings. MLPs, biases and constants aren't on the map.
    """
    arrows, start = [], hops[0].cell
    for n, hop in enumerate(hops):
        share = percent(hop.by.share)
        to = hop.cell.layer, hop.cell.head
        if n + 1 < len(hops):
            step = hops[n + 1].cell
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
    """The leading pairs of parts, one row each, with the tokens that their heads attended to."""
    labels = case.row.trace.labels
    return [
        {
            "the query's part": pair.query_part,
            "the key's part": pair.key_part,
            "adds": pair.value,
            "share (%)": 100 * pair.share,
            "weight without it": pair.ablated_weight,
            "the query's head read": _format_read(pair.query_read, labels),
            "the key's head read": _format_read(pair.key_read, labels),
        }
        for pair in case.pairs
    ]


def _format_read(read: Read | None, labels: Sequence[str]) -> str:
    return "" if read is None else f"{read.token} {labels[read.token]} ({read.weight:.2f})"
