"""A head by its weights alone, whatever the sentence, beside what it does on this one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import streamlit as st

from gpt2viz.analysis.circuits import (
    ByDistance,
    PlaceWeights,
    Ranked,
    every_circuit,
    head_circuit,
)
from gpt2viz.analysis.composition import Composition, composition
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.clicks import choose_query, open_head
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.views.zoom import Window
from gpt2viz.labels import counted
from gpt2viz.pictures.circuits import edge_table, foretold_panels, place_curve, token_table
from gpt2viz.pictures.picture import Heatmaps

#: So many tokens are listed at each end, and so many partners.
LISTED = 6


class Numbers(NamedTuple):
    """What a head's weights say of places and of its own: small enough to keep."""

    matching: float
    by_distance: ByDistance
    place_weights: PlaceWeights
    offset: int


def draw(view: View, part: Window, layer: int, head: int) -> None:
    """Its scores by weights and in the run, what it writes and looks for, places and partners."""
    left, right = st.columns([6, 5], gap="medium")
    with left:
        _beside(view, part, layer, head)
        _places(view, layer, head)
    with right:
        _copying(view.model.name, layer, head)
        _of_token(view, layer, head)
        _partners(view, layer, head)


def _beside(view: View, part: Window, layer: int, head: int) -> None:
    """The scores by the weights alone beside the run's."""
    found = head_circuit(view.model, layer, head).foretells(view.trace)
    panels = [part.fit(panel) for panel in foretold_panels(found, view.labels)]
    output.picture(
        Heatmaps(
            panels[0].named(
                f"Scores of layer {layer}, head {head}, by its weights, and in this run"
            ),
            panels,
            scale="signed",
            n_columns=2,
            height=340,
            row=view.query,
            numbers=0,
            legend=False,
            bar="score",
        ),
        view.colors,
        key="foretold",
        made_by=(head_circuit,),
        choose=choose_query(panels[0].rows),
        drag=part.drag(panels[0]),
    )
    told = (
        "too little to compare" if np.isnan(found.correlation) else f"r = {found.correlation:.2f}"
    )
    prose.caption(
        f"**How far the weights alone foretell this run: {told}.** Left, from each token and its "
        "place alone, as if no earlier layer had written anything"
        + (": in layer 0 nothing else is there. " if layer == 0 else ". ")
        + "Scores are divided as for softmax, less the mean of their row, which softmax forgets."
    )
    if layer > 0:
        st.button(
            "What earlier layers add: why does it look there?",
            icon=":material/arrow_forward:",
            type="tertiary",
            on_click=address.put,
            args=(parameters.SEE, "run"),
        )


def _copying(name: str, layer: int, head: int) -> None:
    """The copying score among those of all heads, in words."""
    every = _copying_scores(name)
    mine = every[layer, head]
    if np.isnan(mine):
        prose.markdown(f"Head {layer}.{head} writes nothing, whatever it looks at.")
        return
    higher = int((every > mine).sum())
    rank = "highest" if not higher else f"number {higher + 1}"
    prose.markdown(
        f"**Copying score {mine:+.2f}**".replace("-", "−")
        + f", {rank} of {counted(every.size, 'heads')}.",
        help=prose.tip(
            "Σλ / Σ|λ| of the full OV circuit: at +1 it raises each token that it looks at, at −1 "
            "it lowers each (Elhage et al. 2021)."
        ),
    )


def _of_token(view: View, layer: int, head: int) -> None:
    """What it makes of the chosen token, or of the last: what it writes, and looks for."""
    place = view.n_tokens - 1 if view.query is None else view.query
    name, token = view.model.name, view.trace.token_ids[place]
    names = run_cache.vocabulary(name)
    prose.markdown(
        f"Where it looks at “{literal(names[token])}” it raises and lowers the logits of the "
        "tokens on the left; as a query that token looks for those on the right.",
        help=prose.tip(
            "By content alone: the token's embedding goes straight through W_V, W_O and the "
            "unembedding, or through W_Q to all tokens' W_K. Numbers are less the mean over the "
            "vocabulary; a logit of a run is smaller by the σ of the last LayerNorm. Choose "
            "another token above."
        ),
    )
    output.table(
        token_table(*_tokens(name, layer, head, token), names),
        f"What head {layer}.{head} makes of “{names[token]}” by its weights",
        hide_index=True,
    )


def _places(view: View, layer: int, head: int) -> None:
    """What it makes of places alone."""
    found = _numbers(view.model.name, layer, head)
    output.picture(
        place_curve(f"Scores of layer {layer}, head {head}, by places alone", found.by_distance),
        view.colors,
        key="places",
        made_by=(head_circuit,),
        of_run=False,
    )
    weight = found.place_weights.by_distance[found.offset]
    prose.caption(
        f"By places alone it would give most weight, {weight:.2f}, to the key "
        f"{counted(found.offset, 'tokens')} back, and {found.place_weights.first:.2f} to the first."
    )


def _partners(view: View, layer: int, head: int) -> None:
    """The heads that it is wired to most; a click opens one."""
    edges = _composition(view.model.name).strongest(LISTED, of=(layer, head))
    if not edges:
        prose.caption("With no other head it is wired more than by chance.")
        return
    table = edge_table(edges)
    picked = output.table(
        table,
        f"Heads that head {layer}.{head} is wired to",
        key="partners",
        hide_index=True,
        height=38 + 35 * min(5, len(table)),
        column_config={
            column: st.column_config.NumberColumn(format=form)
            for column, form in (("z", "%.1f"), ("kernel", "%.2f"), ("ratio", "%.3f"))
        },
        on_select="rerun",
        selection_mode="single-row",
    )
    prose.caption(
        "How much one reads of what the other writes; z is how far that is above chance, in "
        "standard deviations. A click opens the other head."
    )
    for row in picked["selection"]["rows"]:
        edge = edges[row]
        open_head(*(edge.receiver if edge.sender == (layer, head) else edge.sender))


@st.cache_data(max_entries=400, show_spinner=False)
def _numbers(name: str, layer: int, head: int) -> Numbers:
    circuit = head_circuit(run_cache.load(name), layer, head)
    return Numbers(
        circuit.matching_score, circuit.by_distance, circuit.place_weights, circuit.offset
    )


@st.cache_data(max_entries=400, show_spinner=False)
def _tokens(name: str, layer: int, head: int, token: int) -> tuple[Ranked, Ranked]:
    circuit = head_circuit(run_cache.load(name), layer, head)
    return circuit.writes(token, LISTED), circuit.likes(token, LISTED)


@st.cache_data(max_entries=8, show_spinner="Reading every head's weights …")
def _copying_scores(name: str) -> Scores:
    model = run_cache.load(name)
    scores = [circuit.copying_score for circuit in every_circuit(model)]
    return np.array(scores).reshape(model.config.n_layer, model.config.n_head)


@st.cache_resource(max_entries=8, show_spinner="Comparing what every two heads write and read …")
def _composition(name: str) -> Composition:
    return composition(run_cache.load(name))
