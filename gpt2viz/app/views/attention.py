"""Attention: every head of one layer at a glance, and one of them large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from gpt2viz.app import output, pages, prose
from gpt2viz.app.clicks import choose_head_and_query, choose_query
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page
from gpt2viz.app.frame.page import View
from gpt2viz.app.views import measures, zoom
from gpt2viz.app.views.zoom import Window
from gpt2viz.pictures import tables
from gpt2viz.pictures.measure import GRID_OF_MANY, Measure, one_head
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps

_SINK = (
    "A row must sum to 1, even where a head finds nothing to do. Many heads then rest "
    "on the **first token**, which every query can see: an attention "
    "sink (Xiao et al. 2023). A strong first column seldom means that the first word "
    "matters. To see "
    "how the rest is divided, choose *Weights without the first column* above. To see "
    "whether it is the word or its place, put \\<\\|endoftext\\|\\> first: does the "
    "strong column stay with your first word, or go to the new first token?"
)


@dataclass(frozen=True)
class _Chosen:
    """What is shown: a measure of a layer's heads, between tokens or words, and which are large."""

    layer: int
    shown: str
    whole_words: bool
    heads: Sequence[int]
    as_lines: bool

    @property
    def head(self) -> int:
        """The one head that is chosen on every page."""
        return self.heads[0]

    @property
    def what(self) -> str:
        """The measure's name."""
        return measures.MEASURES[self.shown][0]

    @property
    def between(self) -> str:
        """What is added to a title."""
        return " · whole words" if self.whole_words else ""


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.ATTENTION)
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
    chosen = _Chosen(layer, shown, whole_words, heads, as_lines)
    numbers = measures.measure(view.trace, layer, shown, whole_words)
    ones = [
        part.fit(one_head(numbers, n, f"Layer {layer} · Head {n}{chosen.between}", shown))
        for n in heads
    ]
    all_of_them = ones[0].named(f"{chosen.what}, all heads of layer {layer}")
    the_large = ones[0].named(f"{chosen.what}, layer {layer}, head {head}")
    with every, st.container(key="heads"):
        _every_head(view, part, numbers, all_of_them, len(ones[0].values))
    with large, st.container(key="head_large"):
        _large(view, part, numbers, chosen, ones)
        measures.proof(view, [layer])
        with st.container(horizontal=True):
            output.code(
                *measures.made_by(view, layer, shown, whole_words), of=[all_of_them, the_large]
            )
            table = tables.panel_table(ones[0])
            output.table_on_demand("These numbers as a table", table, the_large)
            with st.popover("Why is the first column so strong?", type="tertiary", width="content"):
                prose.markdown(_SINK)


def _every_head(view: View, part: Window, numbers: Measure, alt: str, n_rows: int) -> None:
    """All heads of the layer, small; a click chooses one. A large picture has ``n_rows``."""
    n_head = view.model.config.n_head
    small = [
        part.fit(one_head(numbers, n, f"Head {n}", str(n)), GRID_OF_MANY) for n in range(n_head)
    ]
    if len(small[0].values) < n_rows:
        prose.caption(
            f"Shrunk to {GRID_OF_MANY} × {GRID_OF_MANY}: each point is the largest number in its "
            "block."
        )
    n_columns = 3 if n_head <= 9 else 4
    output.picture(
        Heatmaps(
            alt,
            small,
            numbers.scale,
            n_columns=n_columns,
            height=240 * -(-n_head // n_columns),
            row=view.query,
            numbers=0,
        ),
        view.colors,
        key="all_heads",
        choose=choose_head_and_query(small[0].rows),
        drag=part.drag(small[0]),
    )


def _large(
    view: View, part: Window, numbers: Measure, chosen: _Chosen, ones: Sequence[Panel]
) -> None:
    """The chosen head as a matrix, or it and those beside it as lines."""
    one, layer = ones[0], chosen.layer
    if chosen.as_lines:
        listed = ", ".join(map(str, chosen.heads))
        prose.markdown(f":small[{one.named(f'Layer {layer} · Head {listed}{chosen.between}')}]")
        names = [f"Head {n}" for n in chosen.heads]
        alt = one.named(f"{chosen.what} of layer {layer}, head {listed}")
        lines.draw(view, ones, names, key="lines", alt=alt, unit=numbers.scale == "unit")
        return
    output.picture(
        Heatmaps(
            one.named(f"{chosen.what}, layer {layer}, head {chosen.head}"),
            [one],
            numbers.scale,
            row=view.query,
            numbers=NUMBERS_FIT_LARGE,
            bar=numbers.quantity,
        ),
        view.colors,
        key="one_head",
        choose=choose_query(one.rows),
        drag=part.drag(one),
    )
