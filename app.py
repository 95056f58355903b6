"""Attention: every head of one layer at a glance, and one of them large."""

import streamlit as st

from gpt2viz.app import output, prose
from gpt2viz.app.clicks import choose_head_and_query, choose_query
from gpt2viz.app.components import lines, tiles
from gpt2viz.app.frame import controls, page
from gpt2viz.app.views import measures, zoom
from gpt2viz.pictures import tables
from gpt2viz.pictures.measure import GRID_OF_MANY, one_head
from gpt2viz.pictures.plotly.heatmap import NUMBERS_FIT_LARGE

view = page.open_page("Attention")
part = zoom.window(view)
with st.container(key="choices", horizontal=True, gap="medium", vertical_alignment="bottom"):
    layer, head = controls.layer(view), controls.head(view)
    shown, whole_words = measures.choose()
    as_lines = lines.wanted(part)
prose.markdown(measures.MEASURES[shown][1])
if whole_words:
    prose.caption(measures.words_note(view))
every, large = st.columns([3, 2], gap="large")
with large:
    heads = [head, *(controls.heads_beside(view, head) if as_lines else [])]

n_head = view.model.config.n_head
numbers = measures.measure(view, layer, shown, whole_words)
every_head = [
    part.fit(one_head(numbers, n, f"Head {n}", str(n)), GRID_OF_MANY) for n in range(n_head)
]
between = " · whole words" if whole_words else ""
ones = [part.fit(one_head(numbers, n, f"Layer {layer} · Head {n}{between}", shown)) for n in heads]
one = ones[0]
what = measures.MEASURES[shown][0]
all_of_them = one.named(f"{what}, all heads of layer {layer}")
the_large = one.named(f"{what}, layer {layer}, head {head}")
with every, st.container(key="heads"):
    if len(every_head[0].values) < len(one.values):
        prose.caption(
            f"Shrunk to {GRID_OF_MANY} × {GRID_OF_MANY}: each point is the largest number in its "
            "block."
        )
    tiles.draw(
        every_head,
        view.colors,
        key="all_heads",
        alt=all_of_them,
        scale=numbers.scale,
        tallest=180,
        n_columns=3 if n_head <= 9 else 4,
        row=view.query,
        choose=choose_head_and_query(every_head[0].rows),
        drag=part.drag(every_head[0]),
    )
with large, st.container(key="head_large"):
    if as_lines:
        of_heads = f"Layer {layer} · Head {', '.join(map(str, heads))}{between}"
        prose.markdown(f":small[{one.named(of_heads)}]")
        names = [f"Head {n}" for n in heads]
        alt = one.named(f"{what} of layer {layer}, head {', '.join(map(str, heads))}")
        lines.draw(view, ones, names, key="lines", alt=alt, unit=numbers.scale == "unit")
    else:
        tiles.draw(
            [one],
            view.colors,
            key="one_head",
            alt=the_large,
            scale=numbers.scale,
            tallest=360,
            row=view.query,
            numbers=NUMBERS_FIT_LARGE,
            bar=numbers.quantity,
            choose=choose_query(one.rows),
            drag=part.drag(one),
        )
    measures.proof(view, [layer])
    with st.container(horizontal=True):
        output.code(
            *measures.made_by(view, layer, shown, whole_words),
            of=[all_of_them, the_large],
        )
        output.table_on_demand(
            "These numbers as a table",
            tables.panel_table(one),
            the_large,
        )
        with st.popover("Why is the first column so strong?", type="tertiary", width="content"):
            prose.markdown(
                "A row must sum to 1, even where a head finds nothing to do. Many heads then rest "
                "on the **first token**, which every query can see: an attention "
                "sink (Xiao et al. 2023). A strong first column seldom means that the first word "
                "matters. To see "
                "how the rest is divided, choose *Weights without the first column* above. To see "
                "whether it is the word or its place, put \\<\\|endoftext\\|\\> first: does the "
                "strong column stay with your first word, or go to the new first token?"
            )
