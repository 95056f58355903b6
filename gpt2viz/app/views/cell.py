"""One cell's sum written out with the real numbers, from q·k to the output."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gpt2viz.analysis.cell import CellArithmetic
from gpt2viz.app import output, prose
from gpt2viz.app.components import written_sum
from gpt2viz.app.components.written_sum import (
    Part,
    arrow,
    note,
    peak,
    result,
    strip,
    table,
    written,
)
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.labels import counted, difference, shorten
from gpt2viz.pictures import tables

#: So many keys of the query's row are listed; the others' numbers are added up.
_KEYS = 5


def draw(view: View, cell: CellArithmetic, query: int, key: int, hardest: int) -> None:
    """Show how query token ``query`` and key token ``key`` (positions from 0) come together.

    ``hardest`` is the key that the query looks at hardest.
    """
    asks, answers = literal(view.labels[query]), literal(view.labels[key])
    prose.markdown(f"##### One cell in full: query {asks} ({query}), key {answers} ({key})")
    at_hardest = "It looks hardest at this key. " if key == hardest else ""
    prose.caption(f"{at_hardest}Click any cell of the scores or weights to choose another.")
    parts = [
        *_score(view, cell, query, key),
        *_scale_and_mask(view, cell),
        *_softmax(view, cell, key),
        *_output(view, cell, query, key),
        note(
            "Recomputed in double precision from this run's Q, K and V. Largest difference from "
            f"the model's own numbers: {difference(cell.largest_difference)}."
        ),
    ]
    written_sum.draw(parts, key="written_sum")


def tables_on_demand(view: View, cell: CellArithmetic) -> None:
    """All numbers of the sum, behind a button."""
    output.tables_on_demand(
        "Numbers as tables",
        {
            "q·k, dimension by dimension": partial(tables.dot_product_table, cell),
            "Softmax, key by key": partial(tables.softmax_table, cell, view.labels),
            "The output, dimension by dimension": partial(tables.output_table, cell),
        },
    )


def _score(view: View, cell: CellArithmetic, query: int, key: int) -> list[Part]:
    colors, both = view.colors, peak(cell.query, cell.key)
    count = len(cell.products)
    return [
        strip("q", view.labels[query], cell.query, both, colors, colors.query),
        strip("k", view.labels[key], cell.key, both, colors, colors.key),
        arrow("q × k in each dimension"),
        strip("q × k", "", cell.products, peak(cell.products), colors, colors.ink),
        arrow(f"the sum of {counted(count, 'products')}"),
        result("Raw score q·k", cell.score, cell.model_score),
    ]


def _scale_and_mask(view: View, cell: CellArithmetic) -> list[Part]:
    hs = len(cell.products)
    layer = round(cell.divisor / math.sqrt(hs))
    divisor = f"√{hs}" + (f" · {layer}" if layer > 1 else "")
    mask = "the mask is off: the score stays"
    if cell.masked:
        mask = "the mask says no, this key comes after the query: −∞"
    elif view.trace.causal:
        mask = "the mask says yes, the query may see this key"
    return [
        arrow(f"÷ {divisor} = {written(cell.divisor)}"),
        result("Scaled score", cell.scaled, cell.model_scaled),
        arrow(mask),
    ]


def _softmax(view: View, cell: CellArithmetic, key: int) -> list[Part]:
    best = np.argsort(-np.nan_to_num(cell.weights), kind="stable")[:_KEYS]
    listed = sorted({key, *map(int, best)})
    rows = [
        (
            [
                f"{n} {shorten(view.labels[n])}",
                *(written(of[n]) for of in (cell.row, cell.exponentials, cell.weights)),
            ],
            float(cell.weights[n]),
        )
        for n in listed
    ]
    if others := len(cell.weights) - len(listed):
        e, weight = (float(np.delete(of, listed).sum()) for of in (cell.exponentials, cell.weights))
        rows.append(([counted(others, "others"), "", written(e), written(weight)], weight))
    total, part = cell.exponentials.sum(), cell.exponentials[key]
    return [
        table(
            ["key", "score x", "eˣ⁻ᵐᵃˣ", "weight", ""], rows, listed.index(key), view.colors.accent
        ),
        arrow(f"softmax: {written(part)} of {written(total)}, the sum of all eˣ⁻ᵐᵃˣ in the row"),
        result("Attention weight", float(cell.weights[key]), cell.model_weight),
    ]


def _output(view: View, cell: CellArithmetic, query: int, key: int) -> list[Part]:
    colors, weight = view.colors, float(cell.weights[key])
    same = peak(cell.value, cell.output)
    return [
        arrow(f"this key's v, times {written(weight)}"),
        strip("v", view.labels[key], cell.value, same, colors, colors.value),
        strip("weight × v", "", cell.contribution, same, colors, colors.value),
        arrow("and the same of every other key, added up"),
        strip("output", view.labels[query], cell.output, same, colors, colors.ink),
    ]
