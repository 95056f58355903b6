"""Find: a head by what it does, by where it looks, or by a pattern that you draw."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import CheckpointError
from gpt2viz.analysis.attribution import taken
from gpt2viz.analysis.looks import Look
from gpt2viz.analysis.patterns import drawn, likeness, similarity
from gpt2viz.analysis.scores import SCORES, SEED, Scores, head_scores
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import open_map_head
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls, page, token_strip
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.views import pattern_grid, similar_heads, zoom
from gpt2viz.app.views.head_ranking import ranked
from gpt2viz.app.views.stages import draw_weights
from gpt2viz.arrays import Pairs
from gpt2viz.labels import counted
from gpt2viz.pictures.find import atlas, drawn_pattern, head_map
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.run.trace import Trace
from gpt2viz.survey.stored import Survey, read_survey

SIMILARITY = "cosine similarity"
#: Value in the address -> which text the heads are measured on.
TEXTS = {
    "sentence": "your sentence",
    "probe": "random tokens, repeated",
    "texts": "many texts",
}

#: What a query takes from keys: how much of its attention, and the vector that comes of it.
WEIGHT, GIVEN = "attention weight", "length given"


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.FIND, _choosing())
    choices = st.container(key="choices", horizontal=True, gap="small", vertical_alignment="center")
    with choices:
        chosen = controls.mode(pages.FIND)
    _stop_where_all_are_alike(view, chosen)
    ways = {"habit": _by_habit, "look": _by_look, "pattern": _by_pattern, "head": _by_head}
    if chosen in ways:
        ways[chosen](view, choices)
    else:
        similar_heads.draw(view)


def _beside() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Room for maps of all heads, and beside it for the ranking."""
    maps, ranking = st.columns([8, 5], gap="medium")
    return maps.container(gap="xsmall"), ranking.container(gap="xsmall")


def _by_habit(view: View, choices: DeltaGenerator) -> None:
    """Maps of every score of every head, on the sentence and on random tokens said twice."""
    probe = run_cache.probe(view.trace.key)
    runs = {"sentence": view.trace} | ({} if probe is None else {"probe": probe})
    scores = {text: run_cache.head_scores(run.key) for text, run in runs.items()}
    across = _survey(view)
    if across:
        scores["texts"] = across.mean
    with choices:
        score, text = _habit(scores)
    maps, ranking = _beside()
    with maps, st.container(key="atlas"):
        output.picture(
            atlas(
                "Every score of every head, on each text",
                {TEXTS[text]: found for text, found in scores.items()},
            ),
            view.colors,
            key="atlas_maps",
            made_by=(head_scores, *dict.fromkeys(chain(*(s.code for s in SCORES.values())))),
            then=open_map_head,
        )
    prose.markdown(
        f":small[**{score}**: {SCORES[score].words} :gray[{literal(SCORES[score].formula)}]]",
        place=ranking,
    )
    with maps:
        _explain(probe, across)
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


def _by_look(view: View, choices: DeltaGenerator) -> None:
    """Every head by how much a query takes from the chosen keys."""
    query, opening = _pair(view)
    with choices:
        by = _look()
    keys = _keys(view, query, opening)
    if not keys:
        return
    numbers = given(view, query, keys)
    maps, ranking = _beside()
    with maps, st.container(key="maps"):
        for place, (name, values) in zip(st.columns(2), numbers.items(), strict=True):
            output.picture(
                Heatmaps(
                    f"{name} from query {query} to tokens {', '.join(map(str, keys))}, every head",
                    [head_map(values, name)],
                    scale="unit" if name == WEIGHT else "amount",
                    height=map_height(view),
                    numbers=8,
                    bar=name,
                    legend=False,
                ),
                view.colors,
                place=place,
                key=f"map_{name}",
                made_by=(taken,) if name == GIVEN else (given,),
                then=open_map_head,
            )
        if opening and address.is_default(parameters.KEYS):
            _opened(view, query, opening)
    with ranking:
        ranked(view, numbers, by, view.trace, view.labels)


def _by_pattern(view: View, choices: DeltaGenerator) -> None:
    """Every head by how much it is like a drawn pattern."""
    with choices:
        kind, n, cells = pattern_grid.pattern(view)
    maps, ranking = _beside()
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
        _similarity_map(view, values)
    with maps:
        pattern_grid.note(view)
    with ranking:
        ranked(view, {SIMILARITY: values}, SIMILARITY, view.trace, view.labels)


def _by_head(view: View, choices: DeltaGenerator) -> None:
    """Every head by how much it is like a chosen one."""
    with choices:
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.wanted(zoom.whole_text(view.n_tokens), label="collapsed")
    maps, ranking = _beside()
    picture, found = maps.columns(2, gap="small")
    with picture:
        draw_weights(view, layer, head, key="chosen_head", as_lines=as_lines, height=340)
    with found:
        values = alike(view, layer, head)
        _similarity_map(view, values)
    prose.caption(
        "The number is the **cosine similarity** of two heads' weights on this sentence, over "
        "all rows but the first: 1 for the same weights, 0 where no key gets weight from both.",
        place=maps,
    )
    with ranking:
        ranked(view, {SIMILARITY: values}, SIMILARITY, view.trace, view.labels, as_lines)


def _similarity_map(view: View, values: Scores) -> None:
    """A map of every head's similarity, (n_layer, n_head)."""
    with st.container(key="maps"):
        output.picture(
            Heatmaps(
                "Similarity of every head",
                [head_map(values, SIMILARITY)],
                height=340,
                numbers=8,
                bar=SIMILARITY,
                legend=False,
            ),
            view.colors,
            key="map_similarity",
            made_by=(similarity, likeness),
            then=open_map_head,
        )


def _choosing() -> str:
    """What it does to choose a token of the sentence, which stands above the way to look."""
    chosen, text = address.asked(parameters.FIND), address.asked(parameters.ON)
    if chosen == "look":
        return "Choose the token that looks."
    of_sentence = text in ("sentence", "texts") or chosen in ("pattern", "head")
    return token_strip.LIGHT_UP if of_sentence and chosen != "all" else ""


def _stop_where_all_are_alike(view: View, chosen: str) -> None:
    """Stop the page with one message where heads are to be told apart on one token."""
    if view.n_tokens == 1 and chosen in ("pattern", "head", "all"):
        st.info("With one token all heads are alike: it sees only itself. Write a longer sentence.")
        st.stop()


@st.cache_resource(max_entries=4, show_spinner="Reading the survey …")
def _read_survey(name: str) -> Survey | None:
    model = run_cache.load(name)
    if model.weights is None:
        return None
    sizes = (model.config.n_layer, model.config.n_head)
    return read_survey(run_cache.model_folders()[name], model.weights, *sizes)


def _survey(view: View) -> Survey | None:
    """The model's scores across many texts, if it has them; one message where they are broken."""
    try:
        return _read_survey(view.model.name)
    except CheckpointError as error:
        st.warning(literal(str(error)), icon=":material/error:")
        return None


def _explain(probe: Trace | None, across: Survey | None) -> None:
    """What the maps show, what the probe is, if there is one, and how many texts there are."""
    prose.markdown(
        ":small[One map for each habit: each cell is a head, layers down and heads across. The "
        "stronger the colour, the more the head does it. Click a cell to look inside that head.]"
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


def _habit(texts: Iterable[str]) -> tuple[str, str]:
    """Pick the score that heads are ranked by, and on which of the ``texts``, keys of ``TEXTS``."""
    offered = list(texts)
    score: str = st.segmented_control(
        "Rank the heads by",
        list(SCORES),
        required=True,
        wrap=True,
        label_visibility="collapsed",
        **address.choice(parameters.HABIT, list(SCORES)),
    )
    text: str = st.segmented_control(
        "on",
        offered,
        format_func=TEXTS.__getitem__,
        required=True,
        **address.choice(parameters.ON, offered, "probe" if "probe" in offered else offered[0]),
    )
    return score, text


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


def _pair(view: View) -> tuple[int, Look | None]:
    """The query, and the look from it that the mode opens with, if there is one.

    That is the chosen head's hardest; where no token is chosen, of all its rows.
    """
    looks = run_cache.every_head(view.trace.key).looks
    layer, head = controls.layer_and_head(view)
    query = view.query
    if query is None:
        keys_alone = address.asked(parameters.KEYS) is not None
        query = view.n_tokens - 1 if keys_alone else int(looks.weights[layer, head].argmax())
    return query, looks.at(layer, head, query) or next(iter(looks.hardest(query, 1)), None)


def _keys(view: View, query: int, opening: Look | None) -> list[int]:
    """Pick the tokens that the query may look at; at first that of its ``opening`` look."""
    seen = range(query + 1 if view.trace.causal else view.n_tokens)
    small, labels = ":small[:gray[{}]]".format, view.labels
    bound = address.several(parameters.KEYS, seen, [opening.key] if opening else [])

    opened = {opening.key} if opening and address.is_default(parameters.KEYS) else set[int]()

    def choose() -> None:  # the token that looks is then a choice too, and stays
        address.put(parameters.QUERY, query)
        keys = [n for n in st.session_state[parameters.KEYS.name] if n not in opened]
        address.put(parameters.KEYS, keys)  # in place of the key that nobody chose

    with st.container(key="keys_of", horizontal=True, vertical_alignment="center", gap="small"):
        prose.markdown(
            f"“{literal(view.labels[query])}” ({query}) looks at",
            width="content",
            help=prose.tip(
                "Choose one or more tokens that are looked at here, and the token that looks from "
                "the tokens above."
            ),
        )
        chosen: list[int] = st.pills(
            "Tokens that are looked at",  # plain: it is read aloud with every sign in it
            seen,
            selection_mode="multi",
            label_visibility="collapsed",
            format_func=lambda n: f"{small(n)} {literal(labels[n])}",
            key=bound["key"],
            on_change=choose,
        )
    return sorted(chosen)


def _opened(view: View, query: int, look: Look) -> None:
    """Why these two tokens are chosen at first."""
    st.caption(  # without links to the glossary: its words are anybody's
        f"Opened with a look of head {look.layer}.{look.head}: from “"
        f"{literal(view.labels[query])}” ({query}) at “{literal(view.labels[look.key])}” "
        f"({look.key}), {look.weight:.2f}. Its hardest look from there, at another token "
        "that isn't the first."
    )


def _look() -> str:
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
        **address.choice(parameters.RANK, [WEIGHT, GIVEN]),
    )
    return chosen


def given(view: View, query: int, keys: list[int]) -> dict[str, Scores]:
    """What a query takes from keys, in every head: ``WEIGHT`` and ``GIVEN``, (n_layer, n_head)."""
    every = range(view.model.config.n_layer)
    weights = [view.trace.stage("weights", n)[0][:, query, keys].sum(axis=1) for n in every]
    lengths = [taken(view.model, view.trace, n, query, keys) for n in every]
    return {WEIGHT: np.stack(weights), GIVEN: np.stack(lengths)}


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


def map_height(view: View) -> int:
    """Pixels for a map with numbers in its cells."""
    return max(260, 90 + 30 * view.model.config.n_layer)
