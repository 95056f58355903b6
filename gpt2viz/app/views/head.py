"""Head: from Q, K and V to the output, and one cell's sum written out."""

from __future__ import annotations

import streamlit as st

from gpt2viz.analysis.cell import cell_arithmetic
from gpt2viz.analysis.steps import Step
from gpt2viz.app import pages, prose
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page
from gpt2viz.app.views import cell, measures, why, zoom
from gpt2viz.app.views.stages import PAIRS, answers, draw_stage


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.HEAD)
    part = zoom.window(view)
    with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
        layer, head = controls.layer(view), controls.head(view)
        key = controls.key_token(view)
        as_lines = lines.wanted(part)

    masking = (
        "The mask strikes out later keys."
        if view.trace.causal
        else "The mask would strike out later keys; it is off."
    )
    chosen = answers(view, part)
    with st.container(key="stages"):
        for row in (("q", "k", "v"), PAIRS):
            widths = [2 if as_lines and stage == "weights" else 1 for stage in row]
            for column, stage, width in zip(st.columns(widths), row, widths, strict=True):
                with column:
                    draw_stage(view, part, stage, layer, head, key, width > 1, **chosen)
        output, words = st.columns([2, 1], gap="large", vertical_alignment="center")
        with output:
            draw_stage(view, part, "head_output", layer, head, **chosen)
        prose.markdown(
            "**How to read this page.** Every token asks with its row of :blue[**Q**] and answers "
            "with its row of :orange[**K**]. Their product is the raw score, divided by √hs so "
            f"that it stays small. {masking} Softmax turns each row into weights that sum to 1, "
            "and the output mixes the rows of :green[**V**] by these weights.",
            place=words,
        )
    measures.proof(view, [layer])

    query = view.query if view.query is not None else view.n_tokens - 1
    why.draw(view, Step(layer, head, query, key))
    cell.draw(view, cell_arithmetic(view.trace, layer, head, query, key), query, key)
