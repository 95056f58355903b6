"""Every head of a model by a number or by its weights: maps, a ranking, groups of similar heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import scipy  # reads its parts when they are used
from numpy.typing import NDArray

from gpt2viz.analysis.patterns import as_weights
from gpt2viz.analysis.scores import SCORES, Scores
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES
from gpt2viz.arrays import Numbers, Pairs
from gpt2viz.pictures.every_head import HeadMaps, MapRow
from gpt2viz.pictures.from_trace import stage_panel
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import GRID, block_starts, pool_by_maximum, pool_panel
from gpt2viz.run.trace import Trace

#: Cells along one side of a head's picture beside the ranking; a longer text is pooled.
SMALL = 64
#: The note beside the maps of scores by weights alone.
WEIGHTS_ALONE = "weights alone"


def atlas(
    what: str,
    texts: Mapping[str, Mapping[str, Scores]],
    chosen: tuple[int | None, int | None] = (None, None),
    by_weights: Mapping[str, Scores] | None = None,
) -> HeadMaps:
    """A map (layers down, heads across) of every score, a row of maps for each of the texts.

    Scores in [0, 1] share one scale; an amount has one of its own, from 0 to the largest of all
    texts. A score that a text lacks is an empty map that says so. The scores ``by_weights`` alone
    are a row of their own. The ``chosen`` layer and head are framed. A click carries a head's layer
    as row and its number as column.
    """
    ends = [(0.0, _highest(name, texts)) for name in SCORES]
    units = [score.unit for score in SCORES.values()]
    rows = [
        MapRow(text, [_map(text, scores, name) for name in SCORES], ends, units)
        for text, scores in texts.items()
    ]
    if by_weights is not None:
        rows.append(_weights_row(by_weights))
    return HeadMaps(what, rows, chosen)


def _weights_row(scores: Mapping[str, Scores]) -> MapRow:
    known = WEIGHT_SCORES.values()
    return MapRow(
        WEIGHTS_ALONE,
        [
            replace(
                head_map(scores[score.name], score.title),
                title=f"{score.title}, {WEIGHTS_ALONE}",
                name=score.name,
                masked_text="nothing to\nmeasure",
            )
            for score in known
        ],
        [
            (score.lowest, score.highest or float(np.nanmax(scores[score.name], initial=1)))
            for score in known
        ],
        [score.unit for score in known],
    )


def _map(text: str, scores: Mapping[str, Scores], name: str) -> Panel:
    nothing = np.full_like(next(iter(scores.values())), np.nan)
    return replace(
        head_map(scores.get(name, nothing), SCORES[name].title),
        title=f"{SCORES[name].title}, {text}",
        name=name,
        masked_text="nothing to\nmeasure" if name in scores else "not in this\nsurvey",
    )


def _highest(name: str, texts: Mapping[str, Mapping[str, Scores]]) -> float:
    if SCORES[name].scale == "unit":
        return 1.0
    known = [scores[name] for scores in texts.values() if name in scores]
    peak = max((float(np.nanmax(values, initial=0)) for values in known), default=0)
    return peak or 1.0


def head_map(values: NDArray[np.floating], quantity: str) -> Panel:
    """One number for every head (n_layer, n_head). A click carries layer and head."""
    n_layer, n_head = values.shape
    return Panel(
        title=f"{quantity}, every head",
        values=values.astype(np.float32),
        rows=Axis("layer", [str(n) for n in range(n_layer)]),
        columns=Axis("head", [str(n) for n in range(n_head)]),
        name=quantity,
        quantity=quantity,
    )


def pattern_panel(pattern: Pairs, trace: Trace) -> Panel:
    """A drawn pattern (T, T), as the weights of a head with exactly this pattern."""
    title = "The pattern to look for"
    weights = stage_panel(trace, trace.labels, "weights", trace.widest_layer, 0, title)
    panel = replace(
        weights, values=as_weights(pattern), name="pattern", quantity="wanted weight", head=None
    )
    return pool_panel(panel, GRID)


def ranking(
    columns: Mapping[str, NDArray[np.floating]], by: str, layers: Sequence[int]
) -> pd.DataFrame:
    """Every head of some layers, one row each, largest ``by`` first, NaN last.

    ``columns`` holds (n_layer, n_head) by name; empty ``layers`` means all.
    """
    n_layer, n_head = columns[by].shape
    where = np.indices((n_layer, n_head)).reshape(2, -1)
    ordered = [by, *(name for name in columns if name != by)]
    table = pd.DataFrame(
        {"layer": where[0], "head": where[1]}
        | {name: columns[name].ravel().astype(np.float64) for name in ordered}
    )
    if layers:
        table = table[table["layer"].isin(layers)]
    return table.sort_values(by, ascending=False, kind="stable", ignore_index=True)


def best_heads(trace: Trace, table: pd.DataFrame, by: str, size: int = SMALL) -> list[Panel]:
    """The weights (T, T) of the heads in a table, pooled to ``size``.

    A click carries "layer.head".
    """
    result = []
    for row in table.to_dict("records"):
        layer, head = int(row["layer"]), int(row["head"])
        title = f"Layer {layer} · Head {head}: {row[by]:.3f}"
        panel = stage_panel(trace, trace.labels, "weights", layer, head, title)
        result.append(replace(pool_panel(panel, size), name=f"{layer}.{head}"))
    return result


#: The most heads along one side of the map; with more, each cell is the largest of its block.
MOST = 256
#: Up to this many heads the tree's branches are ordered by similarity; for more that takes long.
WELL_ORDERED = 256


def tree(similarities: Numbers) -> Numbers:
    """Cluster (H, H) similar heads: SciPy's linkage, (H − 1, 4).

    Average linkage (Sokal & Michener 1958) of 1 − similarity: the two groups whose heads are most
    similar on average merge first. The branches of up to ``WELL_ORDERED`` heads are ordered
    so that neighbours are most similar (Bar-Joseph et al. 2001).
    """
    if len(similarities) == 1:  # SciPy refuses a tree of one
        return np.empty((0, 4))
    apart = 1 - (similarities + similarities.T) / 2
    np.fill_diagonal(apart, 0)
    joined: Numbers = scipy.cluster.hierarchy.linkage(
        scipy.spatial.distance.squareform(apart, checks=False),
        method="average",
        optimal_ordering=len(apart) <= WELL_ORDERED,
    )
    return joined


def leaf_order(joined: Numbers) -> list[int]:
    """The heads (H,) in the order of the tree's leaves."""
    return [int(n) for n in scipy.cluster.hierarchy.leaves_list(joined)] if len(joined) else [0]


def groups(joined: Numbers, at_least: float) -> list[list[int]]:
    """Group the heads that merge at a mean similarity of ``at_least`` or more.

    In the order of the tree; groups of two or more.
    """
    if not len(joined):
        return []
    of = scipy.cluster.hierarchy.fcluster(joined, 1 - at_least, criterion="distance")
    result: dict[int, list[int]] = {}
    for head in leaf_order(joined):
        result.setdefault(int(of[head]), []).append(head)
    return [group for group in result.values() if len(group) > 1]


def group_table(
    similarities: Numbers, grouped: Sequence[Sequence[int]], names: Sequence[str]
) -> pd.DataFrame:
    """One row per group, the largest first: its heads, and its lowest pairwise similarity."""
    rows = [
        {
            "heads": len(group),
            "least alike": similarities[np.ix_(group, group)].min(),
            "layer.head": "  ".join(names[n] for n in sorted(group)),
        }
        for group in sorted(grouped, key=len, reverse=True)
    ]
    return pd.DataFrame(rows, columns=["heads", "least alike", "layer.head"])


def similarity_map(
    what: str,
    similarities: Numbers,
    order: Sequence[int],
    grouped: Sequence[Sequence[int]],
    names: Sequence[str],
) -> Heatmaps:
    """The similarities (H, H) with the heads in an ``order``, and a frame around every group.

    A click carries the indices of both heads in ``cells_of(order)``.
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
    index = {head: n for n, head in enumerate(order)}
    cell = np.searchsorted(starts, np.arange(len(order)), side="right") - 1
    frames = []
    for group in grouped:
        ends = [index[n] for n in group]
        side = int(cell[min(ends)]), int(cell[max(ends)])
        frames.append((side, side))
    bar = "cosine similarity"
    return Heatmaps(what, [panel], height=620, numbers=0, bar=bar, legend=False, frames=frames)


def cells_of(order: Sequence[int]) -> list[int]:
    """The index in ``order`` at which each row and column of the map begins."""
    return block_starts(len(order), MOST)
