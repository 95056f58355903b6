"""One cell's sum written out with the real numbers: four steps from q·k to the output."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from gpt2viz.analysis.cell import CellArithmetic
from gpt2viz.app import output, prose
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.labels import counted, difference
from gpt2viz.pictures import tables


def draw(view: View, cell: CellArithmetic, query: int, key: int) -> None:
    """Show how query token ``query`` and key token ``key`` (positions from 0) come together."""
    asks, answers = literal(view.labels[query]), literal(view.labels[key])
    prose.markdown(f"#### One cell in full: query {asks} ({query}), key {answers} ({key})")
    prose.caption(
        "Recomputed in double precision from this run's Q, K and V. Largest difference from "
        f"the model's own numbers: {difference(cell.largest_difference)}. Click any cell above to "
        "choose another."
    )
    for column, step in zip(st.columns(4), (_dot, _scale_and_mask, _softmax, _output), strict=True):
        with column:
            step(view, cell, key)


def _dot(_view: View, cell: CellArithmetic, _key: int) -> None:
    prose.markdown("**1 · Raw score: q·k**")
    _table("q·k, dimension by dimension", tables.dot_product_table(cell))
    terms = " ".join(f"{product:+.3f}" for product in cell.products)
    prose.markdown(f":small[Sum of {counted(len(cell.products), 'products')}: {terms}]")
    prose.markdown(f"**= {cell.score:.4f}** :gray[(the model: {cell.model_score:.4f})]")


def _scale_and_mask(_view: View, cell: CellArithmetic, _key: int) -> None:
    hs = len(cell.products)
    layer = round(cell.divisor / math.sqrt(hs))
    divisor = rf"\sqrt{{{hs}}}" + (rf" \cdot {layer}" if layer > 1 else "")
    prose.markdown("**2 · Scale, then mask**")
    st.latex(rf"\frac{{q \cdot k}}{{{divisor}}} = \frac{{{cell.score:.4f}}}{{{cell.divisor:.4f}}}")
    prose.markdown(f"**= {cell.scaled:.4f}** :gray[(the model: {cell.model_scaled:.4f})]")
    if cell.masked:
        prose.markdown(
            "The mask says **no**: this key comes after the query. The score becomes **−∞**, "
            "so that its weight will be exactly 0."
        )
    else:
        prose.markdown("The mask says **yes**: the query may see this key. The score stays.")


def _softmax(view: View, cell: CellArithmetic, key: int) -> None:
    prose.markdown("**3 · Softmax over the query's row**")
    _table("Softmax, key by key", tables.softmax_table(cell, view.labels))
    total, part = cell.exponentials.sum(), cell.exponentials[key]
    st.latex(rf"\frac{{e^{{x}}}}{{\sum e^{{x}}}} = \frac{{{part:.4f}}}{{{total:.4f}}}")
    prose.markdown(f"**= {cell.weights[key]:.4f}** :gray[(the model: {cell.model_weight:.4f})]")
    prose.caption(
        "The row's largest score is subtracted first: it changes no weight and keeps eˣ small."
    )


def _output(_view: View, cell: CellArithmetic, key: int) -> None:
    prose.markdown("**4 · Weighted values**")
    _table("The output, dimension by dimension", tables.output_table(cell))
    prose.markdown(
        f":small[This key gives weight {cell.weights[key]:.4f} × its value vector; the output "
        "is the sum over all keys, dimension by dimension.]"
    )


def _table(name: str, frame: pd.DataFrame) -> None:
    formats = {name: st.column_config.NumberColumn(format="%.4f") for name in frame.columns}
    output.table(frame, name, height=250, column_config=formats)
