"""Causal mask: the same head and the same prediction with the mask on and off."""

import streamlit as st

from gpt2viz import tables
from gpt2viz.figures.charts import probability_bars
from gpt2viz.figures.from_trace import difference, head_stage, who_sees_whom
from gpt2viz.figures.heatmap import heatmaps
from gpt2viz.ui import address, cache, controls, frame
from gpt2viz.ui.clicks import Cell, on_click


def choose_row(cell: Cell) -> None:
    """A click on a cell chooses its query."""
    address.put("query", cell.row)


view = frame.open_page("Causal mask")
with st.container(horizontal=True, gap="large"):
    layer, head = controls.layer(view), controls.head(view)
st.markdown(
    "GPT-2 was **trained with the mask on**: to learn to predict the next token, no token may see "
    "the ones after it. Switching it off is an experiment on a model that never met that case."
)

on = cache.run(view.model.name, view.trace.text, True)
off = cache.run(view.model.name, view.trace.text, False)
place = f"layer {layer} · head {head}"
with_mask = head_stage(on, view.labels, "weights", layer, head, f"Mask on · {place}")
without = head_stage(off, view.labels, "weights", layer, head, f"Mask off · {place}")
with st.container(key="masks"):
    both, change, seen = st.columns([2.1, 1.3, 1])
    with both:
        figure = heatmaps(
            [with_mask, without],
            view.colors,
            n_columns=2,
            height=380,
            row=view.query,
            bar="attention weight",
        )
        st.plotly_chart(figure, key="on_off", alt=f"Attention weights, mask on and off, {place}")
    with change:
        figure = heatmaps(
            [difference(without, with_mask, "Difference: off − on")],
            view.colors,
            scale="signed",
            height=380,
            row=view.query,
            bar="difference of weights",
        )
        st.plotly_chart(figure, key="change", alt=f"Weights with the mask off minus on, {place}")
    with seen:
        figure = heatmaps(
            [who_sees_whom(on, view.labels, "Mask on: who may see whom")],
            view.colors,
            height=380,
            row=view.query,
            numbers=False,
        )
        st.plotly_chart(figure, key="seen", alt="Which query may see which key with the mask on")
on_click("masks", choose_row)

st.markdown("#### What comes next, with the mask on and off")
st.caption(
    "Next-token probabilities after the last token: softmax over the whole vocabulary of "
    f"{view.model.config.vocab_size:,} tokens. The ten most probable of either case are shown."
)
names = cache.vocabulary(view.model.name)
table = tables.next_token_change(
    on.next_token_probabilities[0], off.next_token_probabilities[0], names, top=10
)
bars, numbers = st.columns([3, 2], gap="large")
bars.plotly_chart(
    probability_bars(table["token"], table["mask on (%)"], table["mask off (%)"], view.colors),
    key="next",
    alt="Next-token probabilities with the mask on and off",
)
formats = {
    "mask on (%)": st.column_config.NumberColumn(format="%.3f"),
    "mask off (%)": st.column_config.NumberColumn(format="%.3f"),
    "change (points)": st.column_config.NumberColumn(format="%+.3f"),
}
numbers.dataframe(table, hide_index=True, height=460, column_config=formats)
