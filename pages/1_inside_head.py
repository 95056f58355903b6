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
    for row in (("q", "k", "v"), ("scores", "scaled_scores", "masked_scores", "weights")):
        for column, stage in zip(st.columns(len(row)), row, strict=True):
            with column:
                draw_stage(view, stage, layer, head, key)
    output, words = st.columns([2, 1], gap="large", vertical_alignment="center")
    with output:
        draw_stage(view, "head_output", layer, head)
    words.markdown(
        "**How to read this page.** Every token asks with its row of :blue[**Q**] and answers with "
        "its row of :orange[**K**]. Their product is the raw score, divided by √hs so that it "
        "stays small. The mask strikes out later keys. Softmax turns each row into weights that "
        "sum to 1, and the output mixes the rows of :green[**V**] by these weights."
    )
on_click("stages", choose)

query = view.query if view.query is not None else view.n_tokens - 1
cell.draw(view, cell_arithmetic(view.trace, layer, head, query, key), query, key)
