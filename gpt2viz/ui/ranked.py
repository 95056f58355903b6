"""Heads in an order: a table and pictures of the best, from which a click opens one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from gpt2viz.figures.find import best_heads, ranking
from gpt2viz.figures.heatmap import heatmaps
from gpt2viz.heads import Scores
from gpt2viz.traces import Trace
from gpt2viz.ui import address, show
from gpt2viz.ui.clicks import on_click
from gpt2viz.ui.frame import View
from gpt2viz.ui.source import Line

#: So many of the best heads are drawn.
SHOWN = 4


def ranked(
    view: View,
    columns: Mapping[str, Scores],
    by: str,
    trace: Trace,
    labels: Sequence[str],
) -> None:
    """The heads in a table, largest ``by`` first, and pictures of the best: a click opens one.

    ``columns`` holds (n_layer, n_head) by name. ``trace`` is the run that the pictures are of,
    ``labels`` its tokens as written on screen.
    """
    numbers, pictures = st.columns([5, 6], gap="large")
    with numbers:
        table = ranking(columns, by, _layers(view))
        formats = {name: st.column_config.NumberColumn(format="%.3f") for name in table.columns[2:]}
        picked = show.table(
            table,
            f"Heads ranked by {by}",
            key="ranking",
            hide_index=True,
            height=min(500, 38 + 35 * len(table)),
            column_config=formats,
            on_select="rerun",
            selection_mode="single-row",
        )
    with pictures, st.container(key="best"):
        best = table[table[by].notna()].head(SHOWN)
        if len(best):
            figure = heatmaps(
                best_heads(trace, labels, best, by),
                view.colors,
                n_columns=2,
                height=560,
                row=view.query if trace is view.trace else None,
                numbers=0,
            )
            show.picture(
                figure,
                key="best_heads",
                alt=f"Weights of the heads with most {by}",
                made_by=(Line(trace, "weights", int(best["layer"].iloc[0])),),
            )
    clicked = on_click("best")
    if clicked:
        layer, head = clicked.panel.split(".")
        open_head(int(layer), int(head))
    for row in picked["selection"]["rows"]:
        open_head(int(table["layer"].iloc[row]), int(table["head"].iloc[row]))


def _layers(view: View) -> list[int]:
    """Pick the layers whose heads are listed; all where none is chosen."""
    every = range(view.model.config.n_layer)
    chosen: list[int] = st.pills(
        "Only layers",
        every,
        selection_mode="multi",
        wrap=True,
        help="Lists the heads of these layers only. None chosen: of all layers.",
        **address.several("only", every, []),
    )
    return chosen


def open_head(layer: int, head: int) -> None:
    """Go to the page that shows a head from inside."""
    st.switch_page(
        "pages/1_inside_head.py", query_params=address.parameters(layer=layer, head=head)
    )
