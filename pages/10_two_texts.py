"""Two texts: the same model reads both, and a word that they share is followed through both."""

import streamlit as st

from gpt2viz.comparison import align, nearest, stream_places
from gpt2viz.figures.from_trace import head_stage
from gpt2viz.figures.heatmap import heatmaps
from gpt2viz.figures.measure import GRID
from gpt2viz.figures.pooling import pool_panel
from gpt2viz.figures.two_texts import (
    aligned_bars,
    difference_of_matched,
    nearest_table,
    path_lines,
)
from gpt2viz.labels import markup_safe
from gpt2viz.ui import address, cache, controls, frame, two_texts
from gpt2viz.ui.clicks import Cell, on_click


def choose_from_first(cell: Cell) -> None:
    """A click on a row chooses its token, and with it the partner."""
    address.put("query", cell.row)


def choose_from_second(cell: Cell) -> None:
    """A click on a row of the second text chooses its partner, and with it the token."""
    two_texts.choose_from_second(matches, a, cell)


view = frame.open_page("Two texts")
other = two_texts.second(view)
matches = two_texts.matches(view, other)
a, b = two_texts.choose(view, other, matches)
sides = {"First sentence": (view, a), "Second sentence": (other, b)}
paths = two_texts.paths(view, other, (a, b))
two_texts.verdict(view, other, (a, b), paths)

st.markdown("#### The path of the word's vector through the layers")
lines, numbers = st.columns(2, gap="large")
with lines:
    st.plotly_chart(
        path_lines(paths, view.colors),
        key="path",
        alt="Cosine similarity of the word's two vectors after every part of the model",
    )
    st.caption(
        "**Cosine similarity**: 1 where both vectors point the same way, 0 where they are at right "
        "angles. Drawn through: the residual stream, to which every part adds. Dotted: what the "
        "part adds."
    )
with numbers:
    st.caption(
        "**Nearest tokens of the vocabulary** to the stream, by cosine similarity with their "
        "embeddings: the three nearest at each place."
    )
    places = stream_places(view.model.config.n_layer)
    names = cache.vocabulary(view.model.name)
    found = {
        title: nearest(side.trace, position, places, top=3)
        for title, (side, position) in sides.items()
    }
    table = nearest_table(found, places, names)
    st.dataframe(table, height=min(440, 38 + 35 * len(table)))

with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
    st.markdown("#### What it attends to", width="content")
    layer, head = controls.layer(view), controls.head(view)
panels = [
    head_stage(side.trace, side.labels, "weights", layer, head, title)
    for title, (side, _) in sides.items()
]
change = difference_of_matched(*panels, list(matches.items()), "First − second, between partners")
first, second, third = st.columns([4, 4, 5])
for place, area, panel, row in (
    (first, "first_text", panels[0], a),
    (second, "second_text", panels[1], b),
):
    with place, st.container(key=area):
        figure = heatmaps([pool_panel(panel, GRID)], view.colors, height=360, row=row, numbers=0)
        st.plotly_chart(figure, key=f"weights_{area}", alt=panel.title)
with third:
    figure = heatmaps(
        [pool_panel(change, GRID)],
        view.colors,
        scale="signed",
        height=360,
        row=a,
        numbers=0,
        bar="difference of weights",
        legend=False,
    )
    st.plotly_chart(figure, key="difference", alt=change.title)
on_click("first_text", choose_from_first)
on_click("second_text", choose_from_second)
st.plotly_chart(
    aligned_bars(
        align(view.trace.token_ids, other.trace.token_ids),
        (view.labels, other.labels),
        (panels[0].values[a], panels[1].values[b]),
        (
            f"{a} {markup_safe(view.labels[a])}, first sentence",
            f"{b} {markup_safe(other.labels[b])}, second sentence",
        ),
        view.colors,
    ),
    key="bars",
    alt="Attention weights of the word in both sentences",
)
st.caption(
    "Layer, head and one scale are the same in both. Click a row to choose its token on both "
    "sides. Below, both rows over both sentences, laid side by side; – is no token."
)
