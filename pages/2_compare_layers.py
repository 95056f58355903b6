"""Layers: some side by side, one head in all of them, and every head of the model at a glance."""

import streamlit as st

from gpt2viz.app import address, output, prose
from gpt2viz.app.clicks import choose_query, on_click, open_head
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page
from gpt2viz.app.views import measures, zoom
from gpt2viz.pictures.from_trace import difference, difference_in_words
from gpt2viz.pictures.plotly.charts import THUMBNAIL, overview, thumbnail_at, thumbnails
from gpt2viz.pictures.plotly.heatmap import heatmaps

view = page.open_page("Layers")
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
changes = [
    difference(whole[0], other, f"Layer {layer} − layer {layers[0]}{between}")
    for layer, other in zip(layers[1:], whole[1:], strict=True)
]
differences = [part.fit(change) for change in changes]
with st.container(key="layer_charts"):
    prose.markdown(
        "**Attention rollout**, on one scale from 0 to 1: how much of each token's start (key) has "
        "reached each token (query) after the layer, if every head counted the same and values, "
        "MLPs and norms did nothing (Abnar & Zuidema 2020). A rough guide, not a measurement."
        if head == "rollout"
        else f"**Attention weights, {what}**, on one scale from 0 to 1"
    )
    if whole_words:
        prose.caption(measures.words_note(view))
    quantity = panels[0].quantity.capitalize()
    alt = panels[0].named(f"{quantity} of layers {', '.join(map(str, layers))}, {what}")
    if as_lines:
        names = [f"Layer {layer}" for layer in layers]
        lines.draw(view, panels, names, key="layers_lines", alt=alt)
    else:
        figure = heatmaps(
            panels, view.colors, n_columns=4, height=380, row=view.query, bar=panels[0].quantity
        )
        output.picture(figure, key="layers_chart", alt=alt)
    change = f"{quantity}, {what}: layers {', '.join(map(str, layers[1:]))} − layer {layers[0]}"
    change = panels[0].named(change)
    if differences:
        words, charts = st.columns([1, len(differences)], vertical_alignment="center")
        first, other = f"layer {layers[0]}", "the other layer"
        prose.markdown(difference_in_words("Difference", first, other, "number"), place=words)
        figure = heatmaps(
            differences,
            view.colors,
            scale="signed",
            n_columns=3,
            height=380,
            row=view.query,
            bar=changes[0].quantity,
        )
        output.picture(figure, place=charts, key="differences", alt=change)
output.code(
    *measures.made_by(view, layers[0], str(head), whole_words),
    *([difference] if differences else []),
    of=[alt, change],
)
if head != "rollout":
    measures.proof(view, layers)
on_click("layer_charts", choose_query(panels[0].rows), part.drag(panels[0]))

name = {"mean": "The mean of all heads", "rollout": "Rollout"}.get(str(head), f"Head {head}")
with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
    prose.markdown(f"#### {name} in every layer", width="content")
    of_head = measures.of_head(head)
strip, scale = measures.in_every_layer(view, head, of_head, whole_words)
n_columns = min(len(strip), 6 if len(strip) <= 12 else 8)
with st.container(key="strip"):
    figure = heatmaps(
        strip,
        view.colors,
        scale=scale,
        n_columns=n_columns,
        height=70 + 1040 // n_columns * -(-len(strip) // n_columns),
        row=view.query,
        numbers=0,
        bar=strip[0].quantity,
    )
    output.picture(
        figure,
        key="strip_chart",
        alt=f"{name} in every layer: {strip[0].quantity}",
        made_by=measures.made_by(view, layers[0], str(head), whole_words),
    )
if clicked := on_click("strip"):
    layer = int(clicked.panel)
    if isinstance(head, int):
        open_head(layer, head)
    st.switch_page("app.py", query_params=address.parameters(layer=layer))

prose.markdown("#### Every head of every layer")
prose.caption("Click one to look inside.")
masked = measures.weights(view, 0, whole_words).hidden[0]
n_sides = len(masked)
if n_sides > THUMBNAIL:
    prose.caption(
        f"Shrunk to {THUMBNAIL} × {THUMBNAIL}: each point is the largest weight in its block."
    )
with st.container(key="overview"):
    output.picture(
        overview(measures.every_head(view, whole_words), masked, view.colors),
        key="overview_chart",
        alt="Attention weights of every head: layers down, heads across",
        made_by=(*measures.made_by(view, 0, "weights", whole_words), thumbnails),
    )
if clicked := on_click("overview"):
    open_head(*thumbnail_at(clicked.row, clicked.column, n_sides))
