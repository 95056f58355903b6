"""The Find a head page's own widgets: what is looked for, and what was found."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import streamlit as st

from gpt2viz import CheckpointError
from gpt2viz.analysis.attribution import taken
from gpt2viz.analysis.patterns import likeness, similarity
from gpt2viz.analysis.scores import SCORES, SEED, Scores
from gpt2viz.app import address, output, prose, run_cache
from gpt2viz.app.frame import token_strip
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.arrays import Pairs
from gpt2viz.labels import counted
from gpt2viz.run.trace import Trace
from gpt2viz.survey.stored import Survey, read_survey

#: Value in the address -> what a person picks.
WAYS = {
    "habit": "By what it does",
    "look": "Who looks from here to there?",
    "pattern": "Draw a pattern",
    "head": "Which heads do the same?",
    "all": "All heads, by similarity",
}
#: Value in the address -> which text the heads are measured on.
TEXTS = {
    "sentence": "your sentence",
    "probe": "random tokens, repeated",
    "texts": "many texts",
}

#: What a query takes from keys: how much of its attention, and the vector that comes of it.
WEIGHT, GIVEN = "attention weight", "length given"


def way() -> str:
    """Pick how to look for a head: a key of ``WAYS``."""
    chosen: str = st.segmented_control(
        "How do you want to find it?",
        list(WAYS),
        format_func=WAYS.__getitem__,
        required=True,
        label_visibility="collapsed",
        **address.choice("find", list(WAYS), "habit"),
    )
    return chosen


def choosing() -> str:
    """What it does to choose a token of the sentence, which stands above the way to look."""
    chosen, text = (st.query_params.get(name) for name in ("find", "on"))
    if chosen == "look":
        return "Choose the token that looks."
    of_sentence = text in ("sentence", "texts") or chosen in ("pattern", "head")
    return token_strip.LIGHT_UP if of_sentence and chosen != "all" else ""


def stop_where_all_are_alike(view: View, chosen: str) -> None:
    """Stop the page with one message where heads are to be told apart on one token."""
    if view.n_tokens == 1 and chosen in ("pattern", "head", "all"):
        st.info("With one token all heads are alike: it sees only itself. Write a longer sentence.")
        st.stop()


@st.cache_resource(max_entries=4, show_spinner="Reading the survey …")
def _survey(name: str) -> Survey | None:
    model = run_cache.load(name)
    if model.weights is None:
        return None
    sizes = (model.config.n_layer, model.config.n_head)
    return read_survey(run_cache.model_folders()[name], model.weights, *sizes)


def survey(view: View) -> Survey | None:
    """The model's scores across many texts, if it has them; one message where they are broken."""
    try:
        return _survey(view.model.name)
    except CheckpointError as error:
        st.warning(literal(str(error)), icon=":material/error:")
        return None


def explain(probe: Trace | None, across: Survey | None) -> None:
    """What the maps show, what the probe is, if there is one, and how many texts there are."""
    prose.markdown(
        "One map for each habit: each cell is a head, layers down and heads across. The stronger "
        "the colour, the more the head does it. Click a cell to look inside that head."
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
        "the mask on it can see only itself, in every head."
    )


def habit(texts: Iterable[str]) -> tuple[str, str]:
    """Pick the score that heads are ranked by, and on which of the ``texts``, keys of ``TEXTS``."""
    offered = list(texts)
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        score: str = st.segmented_control(
            "Rank the heads by",
            list(SCORES),
            required=True,
            wrap=True,
            **address.choice("habit", list(SCORES), "induction"),
        )
        text: str = st.segmented_control(
            "on",
            offered,
            format_func=TEXTS.__getitem__,
            required=True,
            **address.choice("on", offered, "probe" if "probe" in offered else offered[0]),
        )
    prose.markdown(f"{SCORES[score].meaning} :small[:gray[{literal(SCORES[score].formula)}]]")
    return score, text


def interval_note(across: Survey) -> None:
    """What the ± of a score across many texts is, and what it takes for granted."""
    prose.caption(
        "**± (95 %)**: half of a confidence interval (Student's t) of the mean over up to "
        f"{counted(across.n_passages, 'passages')} of {counted(across.n_documents, 'documents')}. "
        "Passages of one document are alike, so only **documents are treated as independent**. "
        "With fewer than five of them there is no ±."
    )


def passages(across: Survey, score: str) -> None:
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


def keys(view: View, query: int) -> list[int]:
    """Pick the tokens that the query may look at; none at first."""
    seen = range(query + 1 if view.trace.causal else view.n_tokens)
    small, labels = ":small[:gray[{}]]".format, view.labels
    prose.markdown(
        f"Which heads send “{literal(view.labels[query])}” ({query}) to these tokens? Choose one "
        "or more of them here, and choose the token that looks from the tokens above."
    )
    with st.container(height=150 if len(seen) > 40 else "content", border=False):
        chosen: list[int] = st.pills(
            "Tokens that are looked at",  # plain: it is read aloud with every sign in it
            seen,
            selection_mode="multi",
            label_visibility="collapsed",
            format_func=lambda n: f"{small(n)} {literal(labels[n])}",
            **address.several("keys", seen, []),
        )
    return sorted(chosen)


def look() -> str:
    """Pick what heads are ranked by: ``WEIGHT`` or ``GIVEN``."""
    chosen: str = st.segmented_control(
        "Rank the heads by",
        [WEIGHT, GIVEN],
        required=True,
        help=prose.tip(
            "The weight is how much of the query's attention goes to these tokens together. "
            "What they give is a vector: the weighted sum of their value vectors, put through the "
            "head's part of W_O. A large weight on short vectors gives little (Kobayashi et al. "
            "2020)."
        ),
        **address.choice("rank", [WEIGHT, GIVEN], WEIGHT),
    )
    return chosen


def given(view: View, query: int, keys: list[int]) -> dict[str, Scores]:
    """What a query takes from keys, in every head: ``WEIGHT`` and ``GIVEN``, (n_layer, n_head)."""
    every = range(view.model.config.n_layer)
    weights = [view.trace.stage("weights", n)[0][:, query, keys].sum(axis=1) for n in every]
    lengths = [taken(view.model, view.trace, n, query, keys) for n in every]
    return {WEIGHT: np.stack(weights), GIVEN: np.stack(lengths)}


def like(view: View, wanted: Pairs) -> Scores:
    """How much every head is like a drawn pattern (T, T): (n_layer, n_head)."""
    every = range(view.model.config.n_layer)
    return np.stack([similarity(view.trace.stage("weights", n)[0], wanted) for n in every])


def alike(view: View, layer: int, head: int | None) -> Scores:
    """How much every head is like one of them, or like a layer's mean: (n_layer, n_head)."""
    weights = view.trace.stage("weights", layer)[0]
    wanted = weights.mean(axis=0) if head is None else weights[head]
    every = range(view.model.config.n_layer)
    return np.stack([likeness(view.trace.stage("weights", n)[0], wanted) for n in every])


def map_height(view: View) -> int:
    """Pixels for a map with numbers in its cells."""
    return max(290, 90 + 30 * view.model.config.n_layer)
