"""Head: from Q, K and V to the output, with one cell's sum; why it looks there; its weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.analysis.cell import cell_arithmetic
from gpt2viz.analysis.steps import Step
from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page_fragment
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View, Window
from gpt2viz.app.views import births, cell, copying, head_weights, measures, why, zoom
from gpt2viz.app.views import edits as editing
from gpt2viz.app.views.stages import PAIRS, answers, draw_stage
from gpt2viz.pictures.palette import ABOVE, BELOW
from gpt2viz.pictures.panel import Axis
from gpt2viz.pictures.plotly.grid import pixels
from gpt2viz.run.stages import HEAD_STAGES

#: Pixels: the scores in a row with all their gaps, and what stands beside their rows' names.
_IN_A_ROW, _BESIDE = 552, 25


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.HEAD, _below)


def _below(view: View) -> None:
    """What is chosen of the head, and the head in one of the page's modes."""
    part = zoom.window(view)
    choices = st.container(key="head_controls", horizontal=True, vertical_alignment="center")
    with choices:
        mode = controls.mode(pages.HEAD)
        layer, head = controls.layer(view), controls.head(view)
    if mode == "weights":
        head_weights.draw(view, part, layer, head)
        return
    if mode == "why":
        with choices:
            edits = editing.wanted()
        view = editing.acting(view, edits)
    with choices:
        query = view.query if view.query is not None else view.n_tokens - 1
        hardest = hardest_key(view, layer, head, query)
        chosen = Step(layer, head, query, controls.key_token(view, hardest))
    if mode == "why":
        why.draw(view, chosen)
    else:
        _on_this_sentence(view, part, chosen, hardest, choices)


def _on_this_sentence(
    view: View, part: Window, chosen: Step, hardest: int, choices: DeltaGenerator
) -> None:
    """Every stage of the run, and one cell's sum written out."""
    layer, head = chosen.layer, chosen.head
    with choices:
        as_lines = lines.switched(part, named=True)
    copying.offer(view, layer, head)
    with st.container(key="stages"):
        drawn = _stages(view, part, chosen, as_lines)
        with st.container(key="sum"):
            found = cell_arithmetic(view.trace, *chosen)
            cell.draw(view, found, chosen.query, chosen.key, hardest)
            with st.container(horizontal=True, vertical_alignment="center"):
                _ask_why()
                cell.tables_on_demand(view, found)
                made_by = (Line(view.trace, stage, layer) for stage in HEAD_STAGES)
                output.code(*made_by, of=drawn)
                measures.proof(view, [layer])
                births.offer(view, layer, head)


def _ask_why() -> None:
    """The way to the reason of the cell that is written out."""
    st.button(
        "Why does it look there?",
        key="ask_why",
        icon=":material/arrow_forward:",
        type="tertiary",
        on_click=address.put,
        args=(parameters.SEE, "why"),
    )


def hardest_key(view: View, layer: int, head: int, query: int) -> int:
    """The key that a query looks at hardest, the first of several."""
    return int(np.nan_to_num(view.trace.stage("weights", layer, head)[query]).argmax())


def _stages(view: View, part: Window, chosen: Step, as_lines: bool) -> list[str]:
    """Every stage in the order in which it is made; what the pictures are called."""
    does, drawn = answers(view, part), []
    with st.container(key="sources"):
        for stage in "qkv":
            with st.container():
                drawn.append(draw_stage(view, part, stage, chosen, **does))
    with st.container(key="pairs"):
        row = st.columns(_alike(view.labels), vertical_alignment="bottom")
        for stage, column in zip(PAIRS, row, strict=False):
            with column:
                drawn.append(draw_stage(view, part, stage, chosen, **does))
        weights, mixed = st.columns([37, 23])
        with weights:
            drawn.append(draw_stage(view, part, "weights", chosen, as_lines, **does))
        with mixed:
            drawn.append(draw_stage(view, part, "head_output", chosen, **does))
        _how_to_read(view)
    return drawn


def _alike(labels: Sequence[str]) -> list[float]:
    """Shares of the width that leave three matrices of one size, the names on the first's left."""
    names = pixels(Axis("query", labels).longest()) + _BESIDE
    side = max(60.0, (_IN_A_ROW - names) / 3)
    return [names + side, side, side]


def _how_to_read(view: View) -> None:
    """What the colours say, as a bar, and in a tip how the pictures follow from each other."""
    masking = (
        "The mask strikes out later keys."
        if view.trace.causal
        else "The mask would strike out later keys; it is off."
    )
    shades = ", ".join(f"{color} {100 * stop:.0f}%" for stop, color in view.colors.signed)
    with st.container(key="signs", horizontal=True, vertical_alignment="center", gap="small"):
        st.html(
            f'<span style="display: block; width: 7rem; height: .7rem; border-radius: .2rem; '
            f"border: 1px solid {view.colors.grid}; "
            f'background: linear-gradient(90deg, {shades})"></span>',
            width="content",
        )
        prose.caption(
            f"{BELOW} is −, {ABOVE} is +, over the range that stands above each picture.",
            width="content",
            help=prose.tip(
                "**How to read this page.** Every token asks with its row of :blue[**Q**] and "
                "answers with its row of :orange[**K**]. Their product is the raw score, divided "
                f"by √hs so that it stays small. {masking} Softmax turns each row into weights "
                "that sum to 1, and the output mixes the rows of :green[**V**] by these weights."
            ),
        )
