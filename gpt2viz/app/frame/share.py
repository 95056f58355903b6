"""Share: a link to what is on screen, and the chosen head as a picture for a slide."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import streamlit as st

from gpt2viz import Trace, export
from gpt2viz.app import address, in_words, output, pages, parameters, popover, run_cache
from gpt2viz.app.components import browser_picture
from gpt2viz.app.frame import saved_session
from gpt2viz.export.card import HEIGHT, WIDTH
from gpt2viz.pictures.from_trace import head_stage
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Panel

#: Pages that show one head, which is what their card shows.
_OF_A_HEAD = (pages.ATTENTION, pages.HEAD)


def button(colors: Palette) -> None:
    """Draw the button, and what it opens. ``colors`` are those of the page, and of the card."""
    popover.button(
        "Share",
        partial(_body, colors),
        key="share",
        icon="share",
        help="A link to this view, and the chosen head as a picture for a slide",
        of_page=True,
    )


def _body(colors: Palette) -> None:
    if long := address.unwritten():
        st.caption(f"Too long for a link: {', '.join(long)}. A session, under *Save*, can hold it.")
    else:
        st.markdown("**A link** to this view")
        st.code(saved_session.link(), language=None, wrap_lines=True)
    found = output.shown()
    if pages.called(found.page) in _OF_A_HEAD and found.runs:
        _picture(next(iter(found.traces().values())), colors)
    else:
        st.caption("Attention and Head have a picture for a slide here; *Save* has this page's.")


def _picture(trace: Trace, colors: Palette) -> None:
    """The button for the picture, which the visitor's own browser makes."""
    layer, head = address.chosen(parameters.LAYER), address.chosen(parameters.HEAD)
    drawn = export.draw_card(card(trace, layer, head, address.chosen(parameters.QUERY)), colors)
    st.markdown(f"**A picture** of layer {layer}, head {head}, {WIDTH} × {HEIGHT}")
    wanted = ""
    if st.button("PNG", icon=":material/download:", key="share_png"):
        count = st.session_state["_saved"] = st.session_state.get("_saved", 0) + 1
        wanted = f"card-{count}"
    name = export.file_name(export.about(trace, "card", layer, head), "png")
    # Last: who has the picture may at once press a button above, and it must be this run's.
    browser_picture.save(
        wanted, "png", drawn, filename=name.removesuffix(".png"), width=WIDTH, height=HEIGHT
    )


def card(trace: Trace, layer: int, head: int, query: int | None) -> export.Card:
    """What the card says of a head; ``query`` is the place of the chosen token, if one is."""

    def weights(run: Trace) -> Panel:
        return head_stage(run, run.labels, "weights", layer, head, "")

    shown = weights(trace)
    masked = None if trace.causal else weights(run_cache.run(replace(trace.key, causal=True)))
    return export.Card(
        title=f"Layer {layer} · Head {head}",
        panel=shown,
        tokens=trace.labels,
        chosen=query,
        says=f"Head {layer}.{head}: {in_words.does(shown, masked, query=query, write=str)}",
        source=f"{trace.model_name} · causal mask {'on' if trace.causal else 'off'}",
    )
