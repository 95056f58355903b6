"""Compare layers: two to four layers side by side, and every head of the model at a glance."""

import streamlit as st

from gpt2viz.figures.charts import THUMBNAIL, overview, thumbnail_at
from gpt2viz.figures.from_trace import difference
from gpt2viz.figures.heatmap import heatmaps
from gpt2viz.ui import address, controls, frame, lines, measures, show, zoom
from gpt2viz.ui.clicks import Cell, on_click
from gpt2viz.ui.stages import code


def choose_row(cell: Cell) -> None:
    """A click on a cell chooses its query."""
    address.put("query", panels[0].rows.position(cell.row))


view = frame.open_page("Compare layers")
part = zoom.window(view)
with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
    layers, head = controls.several_layers(view), controls.head_or_whole(view)
    whole_words = measures.words()
    as_lines = lines.wanted(part)

what = {"mean": "mean of all heads", "rollout": "rollout"}.get(str(head), f"head {head}")
between = " · whole words" if whole_words else ""
whole = [
    measures.layer_panel(view, layer, head, f"Layer {layer} · {what}{between}", whole_words)
    for layer in layers
]
panels = [part.fit(panel) for panel in whole]
differences = [
    part.fit(difference(whole[0], other, f"Layer {layers[0]} − layer {layer}{between}"))
    for layer, other in zip(layers[1:], whole[1:], strict=True)
]
with st.container(key="layer_charts"):
    st.markdown(
        "**Attention rollout**, on one scale from 0 to 1: how much of each token's start (key) has "
        "reached each token (query) after the layer, if every head counted the same and values, "
        "MLPs and norms did nothing (Abnar & Zuidema 2020). A rough guide, not a measurement."
        if head == "rollout"
        else f"**Attention weights, {what}**, on one scale from 0 to 1"
    )
    if whole_words:
        st.caption(measures.words_note(view))
    alt = f"{panels[0].quantity} of layers {', '.join(map(str, layers))}, {what}"
    if as_lines:
        names = [f"Layer {layer}" for layer in layers]
        lines.draw(view, panels, names, key="layers_lines", alt=alt)
    else:
        figure = heatmaps(
            panels, view.colors, n_columns=4, height=380, row=view.query, bar=panels[0].quantity
        )
        show.picture(figure, key="layers_chart", alt=alt)
    if differences:
        words, charts = st.columns([1, len(differences)], vertical_alignment="center")
        words.markdown(
            f"**Difference**: blue where layer {layers[0]} has the larger weight, orange where the "
            "other layer has. The scale reaches as far as the largest difference."
        )
        figure = heatmaps(
            differences,
            view.colors,
            scale="signed",
            n_columns=3,
            height=380,
            row=view.query,
            bar="difference of weights",
        )
        show.picture(figure, place=charts, key="differences", alt=f"Differences of layers {layers}")
if head != "rollout":
    code(view, "weights", layers[0])
    measures.proof(view, layers)
on_click("layer_charts", choose_row, part.drag(panels[0]))

st.markdown("**Every head of every layer**: click one to look inside")
masked = measures.weights(view, 0, whole_words).hidden[0]
n_sides = len(masked)
if n_sides > THUMBNAIL:
    st.caption(
        f"Shrunk to {THUMBNAIL} × {THUMBNAIL}: each point is the largest weight of its block."
    )
with st.container(key="overview"):
    show.picture(
        overview(measures.every_head(view, whole_words), masked, view.colors),
        key="overview_chart",
        alt="Thumbnails of all heads",
    )
if clicked := on_click("overview"):
    layer, head = thumbnail_at(clicked.row, clicked.column, n_sides)
    st.switch_page(
        "pages/1_inside_head.py", query_params=address.parameters(layer=layer, head=head)
    )
