"""Every head beside those that do the same: a map in the order of a tree, and its groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import block_starts, pool_by_maximum

Numbers = NDArray[np.float64]

#: Heads along one side of the map; of more, each cell is the largest of its block.
MOST = 256
#: To turn the tree's branches so that neighbours are as alike as can be takes long for more.
WELL_ORDERED = 256


def tree(similarities: Numbers) -> Numbers:
    """How (H, H) similar heads come together one by one: SciPy's linkage, (H − 1, 4).

    Average linkage (Sokal & Michener 1958) of 1 − similarity: the two groups whose heads are most
    alike on average come together first. The branches of up to ``WELL_ORDERED`` heads are turned
    so that neighbours are most alike (Bar-Joseph et al. 2001).
    """
    if len(similarities) == 1:  # SciPy refuses a tree of one
        return np.empty((0, 4))
    apart = 1 - (similarities + similarities.T) / 2
    np.fill_diagonal(apart, 0)
    joined: Numbers = linkage(
        squareform(apart, checks=False),
        method="average",
        optimal_ordering=len(apart) <= WELL_ORDERED,
    )
    return joined


def in_order(joined: Numbers) -> list[int]:
    """The heads (H,) as they stand below the tree."""
    return [int(n) for n in leaves_list(joined)] if len(joined) else [0]


def groups(joined: Numbers, at_least: float) -> list[list[int]]:
    """Heads that come together while their mean similarity is ``at_least`` so much.

    In the order of the tree; groups of two or more.
    """
    if not len(joined):
        return []
    of = fcluster(joined, 1 - at_least, criterion="distance")
    found: dict[int, list[int]] = {}
    for head in in_order(joined):
        found.setdefault(int(of[head]), []).append(head)
    return [group for group in found.values() if len(group) > 1]


def group_table(
    similarities: Numbers, found: Sequence[Sequence[int]], names: Sequence[str]
) -> pd.DataFrame:
    """One row a group, the largest first: its heads, and how alike its least alike two are."""
    rows = [
        {
            "heads": len(group),
            "layer.head": "  ".join(names[n] for n in sorted(group)),
            "least alike": similarities[np.ix_(group, group)].min(),
        }
        for group in sorted(found, key=len, reverse=True)
    ]
    return pd.DataFrame(rows, columns=["heads", "layer.head", "least alike"])


def similarity_map(
    what: str,
    similarities: Numbers,
    order: Sequence[int],
    found: Sequence[Sequence[int]],
    names: Sequence[str],
) -> Heatmaps:
    """The similarities (H, H) with the heads in an ``order``, and a frame round every group.

    A click carries the places of both heads in ``cells_of(order)``.
    """
    starts = cells_of(order)
    values = similarities[np.ix_(order, order)].astype(np.float32)
    axis = Axis("head, as layer.head", [names[order[n]] for n in starts], numbered=False)
    several = "largest of this block: " if len(starts) < len(order) else ""
    panel = Panel(
        title="",
        values=pool_by_maximum(values, MOST),
        rows=axis,
        columns=axis,
        name="similarity",
        quantity=f"{several}cosine similarity",
    )
    place = {head: n for n, head in enumerate(order)}
    cell = np.searchsorted(starts, np.arange(len(order)), side="right") - 1
    frames = []
    for group in found:
        ends = [place[n] for n in group]
        side = int(cell[min(ends)]), int(cell[max(ends)])
        frames.append((side, side))
    bar = "cosine similarity"
    return Heatmaps(what, [panel], height=620, numbers=0, bar=bar, legend=False, frames=frames)


def cells_of(order: Sequence[int]) -> list[int]:
    """The place in ``order`` that each row and column of the map stands for or begins with."""
    return block_starts(len(order), MOST)
