"""Find: a head by what it does, where it looks, a pattern that you draw, or its wiring."""

from __future__ import annotations

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.analysis.patterns import drawn, likeness, similarity
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.clicks import choose_map_head
from gpt2viz.app.components import lines
from gpt2viz.app.frame import below, controls, token_strip
from gpt2viz.app.frame.page import View
from gpt2viz.app.views import (
    head_habits,
    head_looks,
    pattern_grid,
    similar_heads,
    wiring,
    zoom,
)
from gpt2viz.app.views.head_ranking import beside, chosen_head, ranked
from gpt2viz.app.views.stages import draw_weights
from gpt2viz.arrays import Pairs
from gpt2viz.pictures.find import drawn_pattern, head_map
from gpt2viz.pictures.picture import Heatmaps

SIMILARITY = "cosine similarity"


def show() -> None:
    """Draw the page."""
    below.draw(pages.FIND, _below, _choosing)


def _below(view: View) -> None:
    """The way to look is picked, and then drawn."""
    choices = st.container(key="choices", horizontal=True, gap="small", vertical_alignment="center")
    with choices:
        chosen = controls.mode(pages.FIND)
    _stop_where_all_are_alike(view, chosen)
    ways = {
        "habit": head_habits.draw,
        "look": head_looks.draw,
        "pattern": _by_pattern,
        "head": _by_head,
        "wiring": wiring.draw,
    }
    if chosen in ways:
        ways[chosen](view, choices)
    else:
        similar_heads.draw(view)


def _by_pattern(view: View, choices: DeltaGenerator) -> None:
    """Every head by how much it is like a drawn pattern."""
    with choices:
        kind, n, cells = pattern_grid.pattern(view)
    maps, ranking = beside()
    picture, found = maps.columns(2, gap="small")
    wanted = drawn(kind, view.n_tokens, n, cells, view.trace.causal)
    with picture, st.container(key="drawing"):
        panel = drawn_pattern(wanted, view.labels, view.trace)
        output.picture(
            Heatmaps("The pattern to look for", [panel], height=340, numbers=0),
            view.colors,
            key="drawn",
            made_by=(drawn,),
            choose=pattern_grid.paint(view),
        )
    if not wanted[1:].any():
        found.info("The pattern is empty: paint a cell below the first row, or choose a pattern.")
        return
    with found:
        values = _like(view, wanted)
        _similarity_map(view, values, chosen_head(view))
    with maps:
        pattern_grid.note(view)
    with ranking:
        ranked(view, {SIMILARITY: values}, SIMILARITY, view.trace, view.labels)


def _by_head(view: View, choices: DeltaGenerator) -> None:
    """Every head by how much it is like a chosen one."""
    with choices:
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.switched(zoom.whole_text(view.n_tokens))
    maps, ranking = beside()
    picture, found = maps.columns(2, gap="small")
    with picture:
        draw_weights(view, layer, head, key="chosen_head", as_lines=as_lines, height=340)
    with found:
        values = alike(view, layer, head)
        _similarity_map(view, values, (layer, head))
    prose.caption(
        "The number is the **cosine similarity** of two heads' weights on this sentence, over "
        "all rows but the first: 1 for the same weights, 0 where no key gets weight from both.",
        place=maps,
    )
    with ranking:
        ranked(
            view, {SIMILARITY: values}, SIMILARITY, view.trace, view.labels, as_lines, large=False
        )


def _similarity_map(view: View, values: Scores, framed: tuple[int | None, int | None]) -> None:
    """A map of every head's similarity, (n_layer, n_head), with the chosen one ``framed``."""
    with st.container(key="maps"):
        output.picture(
            Heatmaps(
                "Similarity of every head",
                [head_map(values, SIMILARITY)],
                height=340,
                numbers=8,
                row=framed[0],
                column=framed[1],
                bar=SIMILARITY,
                legend=False,
            ),
            view.colors,
            key="map_similarity",
            made_by=(similarity, likeness),
            choose=choose_map_head(),
        )


def _choosing() -> str:
    """What it does to choose a token of the sentence, which stands above the way to look."""
    chosen, text = address.asked(parameters.FIND), address.asked(parameters.ON)
    if chosen == "look":
        return "Choose the token that looks."
    if chosen == "wiring":
        return "Choose the token from which the second head looks."
    of_sentence = text in ("sentence", "texts", "weights") or chosen in ("pattern", "head")
    return token_strip.LIGHT_UP if of_sentence and chosen != "all" else ""


def _stop_where_all_are_alike(view: View, chosen: str) -> None:
    """Stop the page with one message where heads are to be told apart on one token."""
    if view.n_tokens == 1 and chosen in ("pattern", "head", "all"):
        st.info("With one token all heads are alike: it sees only itself. Write a longer sentence.")
        st.stop()


def _like(view: View, wanted: Pairs) -> Scores:
    """How much every head is like a drawn pattern (T, T): (n_layer, n_head)."""
    every = range(view.model.config.n_layer)
    return np.stack([similarity(view.trace.stage("weights", n)[0], wanted) for n in every])


def alike(view: View, layer: int, head: int | None) -> Scores:
    """How much every head is like one of them, or like a layer's mean: (n_layer, n_head)."""
    weights = view.trace.stage("weights", layer)[0]
    wanted = weights.mean(axis=0) if head is None else weights[head]
    every = range(view.model.config.n_layer)
    return np.stack([likeness(view.trace.stage("weights", n)[0], wanted) for n in every])
