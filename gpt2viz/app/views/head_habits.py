"""Heads by what they do: every score of every head, on texts and by the weights alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import CheckpointError
from gpt2viz.analysis.scores import SCORES, SEED, Scores, head_scores
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES, weight_scores
from gpt2viz.app import address, output, parameters, prose, run_cache, troubles, weight_readings
from gpt2viz.app.clicks import choose_map_head
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.views.head_ranking import beside, chosen_head, ranked
from gpt2viz.labels import counted
from gpt2viz.pictures.find import WEIGHTS_ALONE, atlas
from gpt2viz.run.trace import Trace
from gpt2viz.survey.stored import Survey, read_survey

#: Value in the address -> which text the heads are measured on.
TEXTS = {
    "sentence": "your sentence",
    "probe": "random tokens, repeated",
    "texts": "many texts",
    "weights": WEIGHTS_ALONE,
}


def draw(view: View, choices: DeltaGenerator) -> None:
    """Maps of every score of every head, on the sentence and on random tokens said twice."""
    probe = run_cache.probe(view.trace.key)
    runs = {"sentence": view.trace} | ({} if probe is None else {"probe": probe})
    found = {text: run_cache.scored(run.key) for text, run in runs.items()}
    scores = {text: one.scores for text, one in found.items()}
    troubles.draw(*SCORES.troubles, *chain(*(one.failed for one in found.values())))
    across = survey(view)
    if across:
        scores["texts"] = across.mean
    with choices:
        score, text = _habit(scores)
    maps, ranking = beside()
    reading = weight_readings.read(view.model)
    with maps:
        _maps(view, scores, reading.scores)
        weight_readings.bar(reading)
        _explain(probe, across)
    declared = WEIGHT_SCORES[score] if text == "weights" else SCORES[score]
    prose.markdown(
        f":small[**{score}**: {declared.words} :gray[{literal(declared.formula)}]]",
        place=ranking,
    )
    if text == "weights":
        with ranking:
            _by_weights(view, reading.scores, score)
        return
    if score not in scores[text]:
        with ranking:
            _not_surveyed(score)
        return
    columns = {score: scores[text][score]}
    if across and text == "texts":
        columns["± (95 %)"] = across.margin[score]
    run = runs.get(text, view.trace)
    with ranking:
        ranked(view, columns | scores[text], score, run, run.labels)
    if across and text == "texts":
        _interval_note(across)
        _passages(across, score)


def _maps(
    view: View, scores: Mapping[str, Mapping[str, Scores]], by_weights: Mapping[str, Scores] | None
) -> None:
    """Every score of every head, and those by the weights alone once these are read."""
    with st.container(key="atlas"):
        output.picture(
            atlas(
                "Every score of every head, on each text and by the weights alone",
                {TEXTS[text]: found for text, found in scores.items()},
                chosen_head(view),
                by_weights,
            ),
            view.colors,
            key="atlas_maps",
            made_by=(
                head_scores,
                *dict.fromkeys(chain(*(s.code for s in SCORES.values()))),
                weight_scores,
            ),
            choose=choose_map_head(),
        )


def _by_weights(view: View, scores: Mapping[str, Scores] | None, score: str) -> None:
    """The heads ranked by their weights alone, with what they do on the sentence."""
    if scores is None:
        st.info("The heads' weights aren't read yet.", icon=":material/hourglass_empty:")
        return
    ranked(view, scores, score, view.trace, view.labels)


def _habit(texts: Iterable[str]) -> tuple[str, str]:
    """Pick the score that heads are ranked by, and on which of the ``texts``, keys of ``TEXTS``,
    or by the weights alone."""
    offered = [*texts, "weights"]
    opening = "probe" if "probe" in offered else offered[0]
    on = address.choice(parameters.ON, offered, opening)
    by_weights = address.chosen(parameters.ON) == "weights"
    known = list(WEIGHT_SCORES if by_weights else SCORES)
    score: str = st.segmented_control(
        "Rank the heads by",
        known,
        required=True,
        wrap=True,
        label_visibility="collapsed",
        **address.choice(parameters.HABIT, known, "copying" if by_weights else None),
    )
    text: str = st.selectbox("on", offered, format_func=TEXTS.__getitem__, width=310, **on)
    return score, text


def survey(view: View) -> Survey | None:
    """The model's scores across many texts, if it has them; one message where they are broken."""
    try:
        return _read_survey(view.model.name)
    except CheckpointError as error:
        st.warning(literal(str(error)), icon=":material/error:")
        return None


@st.cache_resource(max_entries=4, show_spinner="Reading the survey …")
def _read_survey(name: str) -> Survey | None:
    model = run_cache.load(name)
    if model.weights is None:
        return None
    sizes = (model.config.n_layer, model.config.n_head)
    return read_survey(run_cache.model_folders()[name], model.weights, *sizes)


def _explain(probe: Trace | None, across: Survey | None) -> None:
    """What the maps show, what the probe is, if there is one, and how many texts there are."""
    prose.markdown(
        ":small[One map for each habit: each cell is a head, layers down and heads across. The "
        "stronger the colour, the more the head does it. Click a cell to see that head beside.]"
    )
    twice, many = "", ""
    if probe is not None:
        half = counted(len(probe.token_ids) // 2, "different tokens")
        twice = (
            f" **Second row**: on {half} drawn at random (NumPy's `default_rng({SEED})`), then "
            "the same ones again. Such a text can be predicted only by copying, so it shows which "
            "heads copy."
        )
    if across is not None:
        row = "Third" if twice else "Second"
        many = (
            f" **{row} row**: the mean over {counted(across.n_passages, 'passages')} of up to "
            f"{across.n_tokens} tokens, with the mask on. {literal(across.about)}"
        )
    prose.caption(
        f"**First row**: measured on your sentence.{twice}{many} The first query is left out: with "
        "the mask on it can see only itself, in every head. **Weights alone**: what its weights "
        "have each head do on any text, as if nothing stood between it and the embeddings."
    )


def _not_surveyed(score: str) -> None:
    """What to do where a survey lacks a score."""
    st.info(
        f"This model's survey was made without “{score}”, so it can't rank the heads by it. "
        "Choose another score or another text, or make a new survey: `gpt2viz heads`.",
        icon=":material/info:",
    )


def _interval_note(across: Survey) -> None:
    """What the ± of a score across many texts is, and what it takes for granted."""
    prose.caption(
        "**± (95 %)**: half of a confidence interval (Student's t) of the mean over up to "
        f"{counted(across.n_passages, 'passages')} of {counted(across.n_documents, 'documents')}. "
        "Passages of one document are alike, so only **documents are treated as independent**. "
        "With fewer than five of them there is no ±."
    )


def _passages(across: Survey, score: str) -> None:
    """The passages of many texts on which each head did it most."""
    prose.markdown(f"#### Where each head scored highest on “{score}”")
    found = [p._asdict() for p in across.best if p.score == score]
    names = ["value", "layer", "head", "text", "document", "token"]
    output.table(
        pd.DataFrame(found, columns=names).sort_values("value", ascending=False, kind="stable"),
        f"Passages with the highest score: {score}",
        hide_index=True,
        column_config={"value": st.column_config.NumberColumn(score, format="%.3f")},
    )
    prose.caption(
        f"{literal(across.about)} Document and token, both counted from 0, say where in the texts "
        "a passage begins. The pictures above are of your sentence; their numbers are means over "
        "the texts."
    )
