"""Causal mask: the same head and the same prediction with the mask on and off."""

from __future__ import annotations

import streamlit as st

from gpt2viz import Trace
from gpt2viz.analysis.sampling import softmax
from gpt2viz.app import output, pages, prose, run_cache
from gpt2viz.app.clicks import choose_query, on_click
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page
from gpt2viz.app.frame.page import View
from gpt2viz.app.source_code import Line
from gpt2viz.app.views import measures, two_runs, zoom
from gpt2viz.app.views.stages import mask_in_words
from gpt2viz.app.views.zoom import Window
from gpt2viz.pictures import tables
from gpt2viz.pictures.from_trace import difference_in_words, who_sees_whom
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.prediction import probability_bars


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.CAUSAL_MASK)
    part = zoom.window(view)
    with st.container(horizontal=True, gap="large"):
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.wanted(part)
    both = two_runs.with_mask_and_without(view)
    on, off = both.traces
    output.run("The run with the mask on", on)
    output.run("The run with the mask off", off)
    _who_sees_whom(view, part, on)
    prose.markdown(f"#### Attention weights of layer {layer}, head {head}")
    with st.container(key="masks"):
        names = both.a.name, both.b.name
        shown = two_runs.weights(both, layer, head, names, "Off − on").fit(part)
        what = f"eights of layer {layer}, head {head}"
        two_runs.draw(
            view,
            shown,
            (f"Attention w{what}, with the mask on and off", f"W{what}, mask off − on"),
            key="on_off",
            as_lines=as_lines,
            over_each_other=True,
            made_by=(Line(view.trace, "masked_scores", layer),),
        )
    prose.caption(
        difference_in_words("Off − on", "the run with the mask on", "the run with the mask off")
    )
    for area in ("mask", "masks"):
        on_click(area, choose_query(shown.a.rows), part.drag(shown.a))
    measures.proof(view, [layer], "the run with the mask " + ("on" if view.trace.causal else "off"))
    page.stop_without_numbers(on, off)
    _next_tokens(view, on, off)


def _who_sees_whom(view: View, part: Window, on: Trace) -> None:
    """The mask itself, in words and as a picture."""
    seen = who_sees_whom(on, view.labels, "Mask on: who may see whom")
    words, picture = st.columns([2, 1], gap="large", vertical_alignment="center")
    prose.markdown(
        "GPT-2 was **trained with the mask on**: to learn to predict the next token, no token may "
        "see the ones after it. Switching it off is an experiment: the model was never trained "
        "that way.",
        place=words,
    )
    prose.markdown(mask_in_words(seen, view.query if view.query is not None else 0), place=words)
    shown = part.fit(seen)
    with picture, st.container(key="mask"):
        output.picture(
            Heatmaps(
                shown.named("Which query may see which key with the mask on"),
                [shown],
                height=280,
                row=view.query,
                numbers=0,
            ),
            view.colors,
            key="seen",
            made_by=(who_sees_whom,),
        )


def _next_tokens(view: View, on: Trace, off: Trace) -> None:
    """What comes after the last token in both runs."""
    prose.markdown("#### What comes next, with the mask on and off")
    prose.caption(
        "Next-token probabilities after the last token: softmax over the whole vocabulary of "
        f"{view.model.config.vocab_size:,} tokens. The ten most probable tokens of each case are "
        "shown."
    )
    names = run_cache.vocabulary(view.model.name)
    table = tables.next_token_change(
        on.next_token_probabilities[0], off.next_token_probabilities[0], names, top=10
    )
    bars, numbers = st.columns(2, gap="medium")
    output.picture(
        probability_bars(
            "Next-token probabilities with the mask on and off",
            table["token"],
            {"mask on": table["mask on (%)"], "mask off": table["mask off (%)"]},
        ),
        view.colors,
        place=bars,
        key="next",
        made_by=(Line(view.trace, "last_logits"), softmax),
    )
    formats = {
        "mask on (%)": st.column_config.NumberColumn(format="%.3f"),
        "mask off (%)": st.column_config.NumberColumn(format="%.3f"),
        "change (points)": st.column_config.NumberColumn(format="%+.3f"),
    }
    output.table(
        table,
        "Next tokens with the mask on and off",
        place=numbers,
        hide_index=True,
        column_config=formats,
    )
