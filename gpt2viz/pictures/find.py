"""Every head of a model by a number or by its weights: maps, a ranking, the best ones' pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpt2viz.analysis.patterns import as_weights
from gpt2viz.analysis.scores import SCORES, Scores
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES
from gpt2viz.pictures.every_head import HeadMaps, MapRow
from gpt2viz.pictures.from_trace import head_stage, hidden_in, mask_of
from gpt2viz.pictures.panel import Axis, Mask, Panel
from gpt2viz.pictures.pooling import GRID, pool_panel
from gpt2viz.run.trace import Trace

#: Cells along one side of a head's picture beside the ranking; a longer text is pooled.
SMALL = 64
#: What stands beside the maps of what weights alone say.
WEIGHTS_ALONE = "weights alone"


def atlas(
    what: str,
    texts: Mapping[str, Mapping[str, Scores]],
    chosen: tuple[int | None, int | None] = (None, None),
    by_weights: Mapping[str, Scores] | None = None,
) -> HeadMaps:
    """A map (layers down, heads across) of every score, a row of maps for each of the texts.

    Scores in [0, 1] share one scale; an amount has one of its own, from 0 to the largest of all
    texts. A score that a text lacks is an empty map that says so. The scores that heads have
    ``by_weights`` alone are a row of their own. The ``chosen`` layer and head are framed. A click
    carries a head's layer as row and its number as column.
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
                head_map(scores[one.name], one.name),
                title=f"{one.name}, {WEIGHTS_ALONE}",
                masked_text="nothing to\nmeasure",
            )
            for one in known
        ],
        [
            (one.lowest, one.highest or float(np.nanmax(scores[one.name], initial=1)))
            for one in known
        ],
        [one.unit for one in known],
    )


def _map(text: str, scores: Mapping[str, Scores], name: str) -> Panel:
    nothing = np.full_like(next(iter(scores.values())), np.nan)
    return replace(
        head_map(scores.get(name, nothing), name),
        title=f"{name}, {text}",
        masked_text="nothing to\nmeasure" if name in scores else "not in this\nsurvey",
    )


def _highest(name: str, texts: Mapping[str, Mapping[str, Scores]]) -> float:
    if SCORES[name].scale == "unit":
        return 1.0
    found = [scores[name] for scores in texts.values() if name in scores]
    peak = max((float(np.nanmax(values, initial=0)) for values in found), default=0)
    return peak or 1.0


def head_map(values: NDArray[np.floating], quantity: str) -> Panel:
    """One number (n_layer, n_head) for every head. A click carries layer and head."""
    n_layer, n_head = values.shape
    return Panel(
        title=f"{quantity}, every head",
        values=values.astype(np.float32),
        rows=Axis("layer", [str(n) for n in range(n_layer)]),
        columns=Axis("head", [str(n) for n in range(n_head)]),
        name=quantity,
        quantity=quantity,
    )


def drawn_pattern(wanted: Mask, labels: Sequence[str], trace: Trace) -> Panel:
    """A drawn pattern (T, T) as the weights that a head would have which does just that."""
    panel = Panel(
        title="The pattern to look for",
        values=as_weights(wanted),
        rows=Axis("query", labels),
        columns=Axis("key", labels),
        name="pattern",
        quantity="wanted weight",
        masked=mask_of(trace, 0, 0),
        masked_text=hidden_in(trace).text(),
        masked_name=hidden_in(trace).name,
    )
    return pool_panel(panel, GRID)


def ranking(
    columns: Mapping[str, NDArray[np.floating]], by: str, layers: Sequence[int]
) -> pd.DataFrame:
    """Every head of some layers, one row each, largest ``by`` first; what has no number last.

    ``columns`` holds (n_layer, n_head) by name; all layers where ``layers`` is empty.
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


def best_heads(
    trace: Trace, labels: Sequence[str], table: pd.DataFrame, by: str, size: int = SMALL
) -> list[Panel]:
    """The weights (T, T) of the heads in a table, shrunk to ``size``.

    A click carries "layer.head".
    """
    found = []
    for row in table.to_dict("records"):
        layer, head = int(row["layer"]), int(row["head"])
        title = f"Layer {layer} · Head {head}: {row[by]:.3f}"
        panel = head_stage(trace, labels, "weights", layer, head, title)
        found.append(replace(pool_panel(panel, size), name=f"{layer}.{head}"))
    return found
