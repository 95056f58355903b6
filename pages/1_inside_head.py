"""Inside a head: from Q, K and V to the output, and one cell's sum written out."""

import streamlit as st

from gpt2viz.arithmetic import cell_arithmetic
from gpt2viz.ui import address, cell, controls, frame
from gpt2viz.ui.clicks import Cell, on_click
from gpt2viz.ui.stages import draw_stage


def choose(clicked: Cell) -> None:
    """A click on a score or weight chooses its query and key; on Q, K or V, the token."""
    address.put("query", clicked.row)
    if clicked.panel in ("scores", "scaled_scores", "masked_scores", "weights"):
        address.put("key", clicked.column)


view = frame.open_page("Inside a head")
with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
    layer, head = controls.layer(view), controls.head(view)
    key = controls.key_token(view)

with st.container(key="stages"):
    for column, stage in zip(st.columns(3), ("q", "k", "v"), strict=True):
        with column:
            draw_stage(view, stage, layer, head)
    steps = ("scores", "scaled_scores", "masked_scores", "weights", "head_output")
    for column, stage in zip(st.columns(5), steps, strict=True):
        with column:
            draw_stage(view, stage, layer, head, key)
on_click("stages", choose)

query = view.query if view.query is not None else view.n_tokens - 1
cell.draw(view, cell_arithmetic(view.trace, layer, head, query, key), query, key)
