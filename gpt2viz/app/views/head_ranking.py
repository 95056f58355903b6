"""Heads in an order: a table, and pictures of the best, or of the one that is chosen instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.clicks import choose_head, choose_named_head, choose_no_head, open_head
from gpt2viz.app.components import lines, matrix_or_lines
from gpt2viz.app.components.matrix_or_lines import Lined
from gpt2viz.app.frame import controls
from gpt2viz.app.frame.page import View
from gpt2viz.app.source_code import Line
from gpt2viz.app.views import zoom
from gpt2viz.pictures.find import SMALL, best_heads, ranking
from gpt2viz.pictures.measure import GRID
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.run.trace import Trace

#: So many of the best heads are drawn.
SHOWN = 4

#: Pixels of the table at most: it scrolls, and the pictures stand below it on the same screen.
_TABLE = 190


def beside() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Room for maps of all heads, and beside it for the ranking."""
    maps, ranking = st.columns([8, 5], gap="medium")
    return maps.container(gap="xsmall"), ranking.container(gap="xsmall")


def ranked(
    view: View,
    columns: Mapping[str, Scores],
    by: str,
    trace: Trace,
    labels: Sequence[str],
    as_lines: bool | None = None,
    large: bool = True,
) -> None:
    """The heads in a table, largest ``by`` first, and pictures of the best: a click chooses one.

    One that is chosen stands there alone, ``large``, where it isn't shown elsewhere on the page.
    ``columns`` holds (n_layer, n_head) by name. ``trace`` is the run that the pictures are of,
    ``labels`` its tokens as written on screen; ``as_lines`` draws them as lines, and is asked for
    above them where it is None.
    """
    if np.isnan(columns[by]).all():
        st.info(
            f"Nothing in this text could show “{by}”, so the heads can't be ranked. "
            "Choose something else above, or write a longer sentence."
        )
        return
    layer, head = chosen_head(view) if large else (None, None)
    with st.container(key="listed", horizontal=True, vertical_alignment="center", gap="small"):
        table = ranking(columns, by, _layers(view))
        if as_lines is None:
            as_lines = lines.switched(zoom.whole_text(len(labels)))
    formats = {name: st.column_config.NumberColumn(format="%.3f") for name in table.columns[2:]}
    chosen = (table["layer"] == layer) & (table["head"] == head)
    rows = [int(n) for n in np.flatnonzero(chosen)]
    st.session_state["ranking"] = {"selection": {"rows": rows}}  # wherever it was chosen
    output.table(
        table,
        f"Heads ranked by {by}",
        key="ranking",
        hide_index=True,
        height=min(_TABLE, 38 + 35 * len(table)),
        column_config=formats,
        on_select=choose_row(table["layer"].tolist(), table["head"].tolist()),
        selection_mode="single-row",
    )
    every = ranking(columns, by, [])
    one = every[(every["layer"] == layer) & (every["head"] == head)]
    with st.container(key="best", gap="xsmall"):
        best = table[table[by].notna()].head(SHOWN)
        if len(one):
            _about_the_chosen(one)
            best = one
        if len(best):
            _pictures(view, best, by, trace, labels, as_lines)


def choose_row(layers: Sequence[int], heads: Sequence[int]) -> Callable[[], None]:
    """A row of the table that is ticked chooses its head."""

    def choose() -> None:
        for row in st.session_state["ranking"]["selection"]["rows"]:
            choose_head(layers[row], heads[row])

    return choose


def chosen_head(view: View) -> tuple[int, int] | tuple[None, None]:
    """The layer and head that are chosen, Nones where nobody has chosen any."""
    chosen = controls.layer_and_head(view)
    default = address.is_default(parameters.LAYER) and address.is_default(parameters.HEAD)
    return (None, None) if default else chosen


def _about_the_chosen(one: pd.DataFrame) -> None:
    """What can be done with the chosen head: look inside, or go back to the best."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button("Look inside this head", icon=":material/search:", type="tertiary"):
            open_head(int(one["layer"].iloc[0]), int(one["head"].iloc[0]))
        st.button(
            f"The best {SHOWN} instead",
            icon=":material/close:",
            type="tertiary",
            key="best_instead",
            on_click=choose_no_head,
        )


def _pictures(
    view: View, best: pd.DataFrame, by: str, trace: Trace, labels: Sequence[str], as_lines: bool
) -> None:
    """The weights of the best heads, two by two, or of one, large."""
    alone = len(best) == 1
    name = f"{best['layer'].iloc[0]}.{best['head'].iloc[0]}"
    alt = f"Weights of {f'head {name}' if alone else f'the heads that rank highest by {by}'}"
    made_by = (Line(trace, "weights", int(best["layer"].iloc[0])),)
    own = trace is view.trace  # else its tokens are others than those of the sentence
    size = GRID if alone else SMALL  # of lines all are drawn
    panels = best_heads(trace, labels, best, by, GRID if as_lines else size)
    picture = Heatmaps(
        alt,
        panels,
        n_columns=1 if alone else 2,
        height=250 if alone else 340,
        row=view.query if own else None,
        numbers=NUMBERS_FIT_LARGE if alone else 0,
    )
    to = lines.on_every_page if own else lines.nowhere
    matrix_or_lines.draw(
        view,
        picture,
        [Lined(f"{alt}: {panel.title}", [panel.title], to) for panel in panels],
        as_lines=as_lines,
        here=len(labels) <= size,
        key="best_heads",
        made_by=made_by,
        of_run=own,
        choose=choose_named_head,
    )


def _layers(view: View) -> list[int]:
    """Pick the layers whose heads are listed; all where none is chosen."""
    every = range(view.model.config.n_layer)
    chosen: list[int] = st.pills(
        "Only layers",
        every,
        selection_mode="multi",
        wrap=True,
        help=prose.tip(
            "Lists the heads of these layers only. With none chosen: those of all layers."
        ),
        **address.several(parameters.ONLY, every),
    )
    return chosen
