"""A head by its weights alone, for any sentence, beside what it does on this one."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from gpt2viz.analysis.circuits import (
    ByDistance,
    PlaceWeights,
    PredictedScores,
    Ranked,
    head_circuit,
)
from gpt2viz.analysis.composition import Composition
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, jobs, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import Changes, choose_query, open_head, page_link
from gpt2viz.app.jobs import Job
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View, Window
from gpt2viz.app.views import measures, predict, why
from gpt2viz.labels import numeral, pluralize, sentence
from gpt2viz.pictures.circuits import (
    edge_table,
    place_curve,
    predicted_panels,
    survey_rows,
    token_table,
)
from gpt2viz.pictures.picture import Heatmaps

#: Least correlations at which the weights alone predict a run's scores, or a part of them.
_WELL, _PARTLY = 0.8, 0.4
#: How many tokens are listed at each end, and how many partners.
LISTED = 5


def draw(view: View, part: Window, layer: int, head: int) -> None:
    """Draw its scores by weights and in the run, its tokens, positions and partners."""
    predicted = head_circuit(view.model, layer, head).predict_scores(view.trace)
    prose.markdown(f"**{_agreement(predicted.correlation)}**")
    left, right = st.columns([6, 5], gap="medium")
    with left:
        _compare(view, part, layer, head, predicted)
    reading = jobs.read_weights(view.model)
    with right:
        _draw_rank(view, reading, layer, head)
        of_token = st.expander(
            "What it does with a token", expanded=address.raw(parameters.TOKEN) is not None
        )
        with st.expander("What it makes of positions"):
            _draw_positions(view, layer, head)
        jobs.weights_bar(reading)
        if reading.result.wiring is not None:
            with st.expander("The heads that it is wired to"):
                _partners(reading.result.wiring, layer, head)
        with st.expander("How this is measured"):
            alone = "" if layer else "; layer 0 reads nothing else"
            prose.caption(sentence("weights.measured", alone=alone))
    with of_token:  # last: typed text that isn't a token stops the page
        _draw_token(view, layer, head)


def _agreement(correlation: float) -> str:
    """Say how well the weights alone predict the run."""
    if np.isnan(correlation):
        return sentence("weights.too_little")
    r = numeral(correlation, ".2f")
    if correlation >= _WELL:
        return sentence("weights.predict", r=r)
    return sentence("weights.partly" if correlation >= _PARTLY else "weights.hardly", r=r)


def _compare(view: View, part: Window, layer: int, head: int, predicted: PredictedScores) -> None:
    """Draw the scores by the weights alone beside the run's."""
    panels = [part.fit(panel) for panel in predicted_panels(predicted, view.labels)]
    output.picture(
        Heatmaps(
            panels[0].label(
                f"Scores of layer {layer}, head {head}, by its weights, and in this run"
            ),
            panels,
            scale="signed",
            n_columns=2,
            height=300,
            row=view.query,
            numbers=0,
            legend=False,
            bar="score",
        ),
        key="predicted",
        made_by=(head_circuit,),
        choose=choose_query(panels[0].rows),
        drag=part.drag(panels[0]),
    )
    if layer > 0:
        why.offer()


def _draw_rank(view: View, reading: Job, layer: int, head: int) -> None:
    """Show its copying score, its rank among all heads, and its scores across many texts."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if reading.result.scores is not None:
            _copying(reading.result.scores["copying"], layer, head)
        chosen: Changes = {parameters.LAYER: layer, parameters.HEAD: head}
        chosen |= {parameters.FIND: "habit", parameters.ON: "weights", parameters.HABIT: "copying"}
        page_link(pages.FIND, "All heads", "grid_on", chosen)
        if (across := measures.survey(view)) is not None:
            output.tables_on_demand(
                "In the survey",
                {
                    f"Head {layer}.{head} over many texts": partial(
                        survey_rows, across.mean, across.margin, layer, head
                    )
                },
            )


def _copying(every: Scores, layer: int, head: int) -> None:
    """Show the copying score and its rank among all heads, in words."""
    mine = every[layer, head]
    if np.isnan(mine):
        prose.markdown(sentence("weights.writes_nothing", head=f"{layer}.{head}"))
        return
    higher = int((every > mine).sum())
    rank = "highest" if not higher else f"number {higher + 1}"
    score, heads = numeral(mine, "+.2f"), pluralize(every.size, "heads")
    prose.markdown(
        sentence("weights.copying", score=score, rank=rank, heads=heads),
        width="content",
        help=prose.tip(
            "Σλ / Σ|λ| of the full OV circuit: at +1 it makes each token that it attends to more "
            "likely, at −1 less likely (Elhage et al. 2021)."
        ),
    )


def _draw_token(view: View, layer: int, head: int) -> None:
    """List the tokens that it writes and looks for, given a picked token, else the chosen or last
    one."""
    name, token = view.model.name, view.trace.token_ids[view.position]
    names = run_cache.vocabulary(name)
    offered = list(dict.fromkeys(names[n] for n in view.trace.token_ids))
    picked = predict.pick_token(view, "The token", parameters.TOKEN, offered, names[token])
    if picked is not None and address.get_chosen(parameters.TOKEN) is not None:
        token = picked
    turns = "q_unrotated" in view.trace.graph  # as if each key were at the query's position
    prose.markdown(
        sentence("weights.token", token=literal(names[token])),
        help=prose.tip(sentence("weights.alone", at=", at distance 0" if turns else "")),
    )
    output.table(
        token_table(*_tokens(name, layer, head, token), names),
        f"What head {layer}.{head} makes of “{names[token]}” by its weights",
        of_run=False,
    )


def _draw_positions(view: View, layer: int, head: int) -> None:
    """Draw its scores by position alone, and the weights that they would give."""
    by_distance, weights, offset = _position_scores(view.model.name, layer, head)
    output.picture(
        place_curve(f"Scores of layer {layer}, head {head}, by position alone", by_distance),
        key="places",
        made_by=(head_circuit,),
        of_run=False,
    )
    learned = view.model.network.position_embedding is not None
    prose.caption(
        sentence(
            "weights.positions",
            alone="position alone"
            if learned
            else "distance alone, averaged over all pairs of tokens,",
            most=f"the key {pluralize(offset, 'tokens')} back" if offset else "the token itself",
            weight=weights.by_distance[offset],
            first=weights.first,
        )
    )


def _partners(wiring: Composition, layer: int, head: int) -> None:
    """List the heads that it is wired to most strongly; a click opens one."""
    edges = wiring.strongest(LISTED, of=(layer, head))
    if not edges:
        prose.caption("It is wired to no other head more than by chance.")
        return
    prose.caption(sentence("weights.partners"))
    picked = output.table(
        edge_table(edges),
        f"Heads that head {layer}.{head} is wired to",
        of_run=False,
        key="partners",
        tallest=178,
        formats={"z": "%.1f", "kernel": "%.2f", "ratio": "%.3f"},
        on_select="rerun",
        selection_mode="single-row",
    )
    for row in picked["selection"]["rows"]:
        edge = edges[row]
        open_head(*(edge.receiver if edge.sender == (layer, head) else edge.sender))


@st.cache_data(max_entries=400, show_spinner=False)
def _position_scores(name: str, layer: int, head: int) -> tuple[ByDistance, PlaceWeights, int]:
    circuit = head_circuit(run_cache.load(name), layer, head)
    return circuit.by_distance, circuit.place_weights, circuit.offset


@st.cache_data(max_entries=400, show_spinner=False)
def _tokens(name: str, layer: int, head: int, token: int) -> tuple[Ranked, Ranked]:
    circuit = head_circuit(run_cache.load(name), layer, head)
    return circuit.writes(token, LISTED), circuit.top_keys(token, LISTED)
