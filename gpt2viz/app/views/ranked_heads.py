"""The list of every head by a number, and the weights of the best or of the chosen one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import labels
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.clicks import choose_head, choose_named_head, choose_no_head, open_head
from gpt2viz.app.components import lines
from gpt2viz.app.components.lines import Lined
from gpt2viz.app.frame import controls
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View, whole_text
from gpt2viz.pictures.find import SMALL, WEIGHTS_ALONE, best_heads, ranking
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.pooling import GRID
from gpt2viz.run.trace import Trace

#: Value in the address -> which text the heads are measured on.
TEXTS = {
    "sentence": "your sentence",
    "probe": "random tokens, repeated",
    "texts": "many texts",
    "weights": WEIGHTS_ALONE,
}
#: How many of the best heads are drawn.
SHOWN = 4
#: Most pixels of the table, which scrolls, so that the pictures below it fit on the same screen.
_TABLE = 190


def columns() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return containers for maps of all heads, and beside them for the ranking."""
    maps, ranking = st.columns([8, 5], gap="medium")
    return maps.container(gap="xsmall"), ranking.container(gap="xsmall")


def draw(
    view: View,
    columns: Mapping[str, Scores],
    by: str,
    text: str = "sentence",
    as_lines: bool | None = None,
) -> None:
    """Draw the heads in a table, largest ``by`` first, and pictures of the best; clicks choose one.

    ``columns`` holds (n_layer, n_head) by name, measured on ``text``, a key of ``TEXTS``.
    ``as_lines`` is given if the page draws the chosen head and the switch for lines itself; else
    both are drawn here, the chosen head instead of the best.
    """
    if np.isnan(columns[by]).all():
        st.info(labels.sentence("find.unmeasured", by=by))
        return
    chosen = chosen_head(view) if as_lines is None else (None, None)
    run = (run_cache.probe(view.trace.key) if text == "probe" else None) or view.trace
    with st.container(key="listed", horizontal=True, vertical_alignment="center"):
        table = ranking(columns, by, _pick_layers(view))
        if as_lines is None:
            as_lines = lines.switch(whole_text(len(run.labels)))
    heads = list(zip(table["layer"].tolist(), table["head"].tolist(), strict=True))
    rows = [n for n, head in enumerate(heads) if head == chosen]
    st.session_state["ranking"] = {"selection": {"rows": rows}}  # also if chosen elsewhere
    output.table(
        table,
        f"Heads ranked by {by}" + ("" if text == "sentence" else f": {TEXTS[text]}"),
        key="ranking",
        of_run=text == "sentence",
        tallest=_TABLE,
        formats=dict.fromkeys(table.columns[2:], "%.3f"),
        choose=lambda row: choose_head(*heads[row]),
    )
    with st.container(key="best", gap="xsmall"):
        best = table[table[by].notna()].head(SHOWN)
        if chosen[0] is not None:
            _draw_head_buttons(*chosen)
            every = ranking(columns, by, [])
            best = every[(every["layer"] == chosen[0]) & (every["head"] == chosen[1])]
        if len(best):
            _draw_best(view, best, by, run, as_lines)


def chosen_head(view: View) -> tuple[int, int] | tuple[None, None]:
    """Return the chosen layer and head, or (None, None) if they are defaults."""
    shown = controls.layer_and_head(view)
    chosen = [*map(address.get_chosen, (parameters.LAYER, parameters.HEAD))]
    return (None, None) if chosen == [None, None] else shown


def _draw_head_buttons(layer: int, head: int) -> None:
    """Draw buttons from the chosen head: to *Head*, or back to the best heads."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Look inside this head", icon=":material/search:", type="tertiary"):
            open_head(layer, head)
        st.button(
            f"Back to the best {SHOWN}",
            icon=":material/close:",
            type="tertiary",
            key="best_instead",
            on_click=choose_no_head,
        )


def _draw_best(view: View, best: pd.DataFrame, by: str, trace: Trace, as_lines: bool) -> None:
    """Draw the weights of the best heads in two columns, or of a single head large."""
    alone = len(best) == 1
    own = trace is view.trace  # else its tokens aren't those of the sentence
    size = GRID if alone else SMALL  # as lines, all cells are drawn
    panels = best_heads(trace, best, by, GRID if as_lines else size)
    shown = f"head {panels[0].name}" if alone else f"the heads that rank highest by {by}"
    alt = f"Weights of {shown}" + ("" if own else f" on {TEXTS['probe']}")
    picture = Heatmaps(
        alt,
        panels,
        n_columns=1 if alone else 2,
        height=250 if alone else 340,
        row=view.query if own else None,
        numbers=NUMBERS_FIT_LARGE if alone else 0,
    )
    to = lines.put_query if own else lines.ignore_click
    lines.draw(
        view,
        picture,
        [Lined(f"{alt}: {panel.title}", [panel.title], to) for panel in panels],
        as_lines=as_lines,
        here=len(trace.labels) <= size,
        key="best_heads",
        made_by=(Line(trace, "weights", int(best["layer"].iloc[0])),),
        of_run=own,
        choose=choose_named_head,
    )


def _pick_layers(view: View) -> list[int]:
    """Pick the layers whose heads are listed; all if none is chosen."""
    every = range(view.model.config.n_layer)
    chosen: list[int] = st.pills(
        "Only layers",
        selection_mode="multi",
        wrap=True,
        help=prose.tip("Lists only the heads of these layers; with none chosen, all."),
        **address.choices(parameters.ONLY, every),
    )
    return chosen
