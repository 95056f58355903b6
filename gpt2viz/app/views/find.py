"""Find: heads by what they do, what they attend to, a drawn pattern, or their wiring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import labels
from gpt2viz.analysis.attribution import key_norm
from gpt2viz.analysis.scores import SCORES, SEED, Scores, head_scores
from gpt2viz.analysis.top_attention import Link
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES, weight_scores
from gpt2viz.app import address, jobs, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import choose_map_head
from gpt2viz.app.frame import controls, page_fragment, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import alike, measures, ranked_heads, wiring
from gpt2viz.app.views.ranked_heads import TEXTS
from gpt2viz.pictures.find import atlas
from gpt2viz.run.trace import Trace
from gpt2viz.survey.stored import Survey

#: Measures of what a query takes from keys: its weight on them, and the length of what they add.
WEIGHT, GIVEN = "attention weight", "vector length"


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.FIND, _modes, _hint)


def _modes(view: View) -> None:
    """Pick a mode and draw it."""
    choices = st.container(key="choices", horizontal=True, vertical_alignment="center")
    with choices:
        chosen = controls.mode(pages.FIND)
    if view.n_tokens == 1 and chosen in ("pattern", "head", "all"):
        st.info(labels.sentence("find.single"))
        return
    ways = {
        "habit": _rank_by_habit,
        "look": _rank_by_look,
        "pattern": alike.rank_by_pattern,
        "head": alike.rank_by_head,
        "all": alike.draw_groups,
        "wiring": wiring.draw,
    }
    ways[chosen](view, choices)


def _hint() -> str:
    """Return a hint on what choosing a token of the sentence does."""
    chosen, text = address.raw(parameters.FIND), address.raw(parameters.ON)
    if chosen == "look":
        return "Choose the token that attends (query)."
    if chosen == "wiring":
        return "Choose the second head's query."
    of_sentence = text in ("sentence", "texts", "weights") or chosen in ("pattern", "head")
    return sentence.LIGHT_UP if of_sentence and chosen != "all" else ""


def _rank_by_habit(view: View, choices: DeltaGenerator) -> None:
    """Draw maps of every head score, on each text and by the weights alone, and a ranking."""
    probe = run_cache.probe(view.trace.key)
    runs = {"sentence": view.trace} | ({} if probe is None else {"probe": probe})
    results = {text: run_cache.score_run(run.key) for text, run in runs.items()}
    scores = {text: result.scores for text, result in results.items()}
    prose.plugin_errors(*SCORES.errors, *chain(*(result.failed for result in results.values())))
    over_texts = measures.survey(view)
    if over_texts:
        scores["texts"] = over_texts.mean
    with choices:
        prose.caption("A cell is a head: the stronger the colour, the more of it.", width="content")
        score, text = _pick_habit(scores)
    maps, ranking = ranked_heads.columns()
    reading = jobs.read_weights(view.model)
    with maps:
        _score_maps(view, scores, reading.result.scores)
        jobs.weights_bar(reading)
        _explain_scores(probe, over_texts)
    known = WEIGHT_SCORES if text == "weights" else SCORES
    declared = known[score]
    prose.markdown(
        f":small[**{declared.title}**: {declared.words}]",
        slot=ranking,
        help=prose.tip(f"Score: “{literal(declared.formula)}”."),
    )
    if text == "weights" and reading.result.scores is None:
        ranking.info("The heads' weights aren't read yet.", icon=":material/hourglass_empty:")
        return
    measured = {**scores, "weights": reading.result.scores or {}}[text]
    if score not in measured:
        ranking.info(
            labels.sentence("find.lacks", score=declared.title),
            icon=":material/info:",
        )
        return
    columns = {known[name].title if name in known else name: measured[name] for name in measured}
    surveyed = over_texts if text == "texts" else None
    if surveyed:
        columns = {"± (95 %)": surveyed.margin[score], **columns}
    with ranking:
        ranked_heads.draw(view, columns, declared.title, text)
    if surveyed:
        _passages(surveyed, score)


def _score_maps(
    view: View, scores: Mapping[str, Mapping[str, Scores]], by_weights: Mapping[str, Scores] | None
) -> None:
    """Draw every score of every head, with those by the weights alone once computed."""
    with st.container(key="atlas"):
        output.picture(
            atlas(
                "Every score of every head, on each text and by the weights alone",
                {TEXTS[text]: values for text, values in scores.items()},
                ranked_heads.chosen_head(view),
                by_weights,
            ),
            key="atlas_maps",
            made_by=(
                head_scores,
                *dict.fromkeys(chain(*(s.code for s in SCORES.values()))),
                weight_scores,
            ),
            choose=choose_map_head(),
        )


def _pick_habit(texts: Iterable[str]) -> tuple[str, str]:
    """Pick the score that heads are ranked by, and on which of the ``texts``, keys of ``TEXTS``,
    or by the weights alone."""
    offered = [*texts, "weights"]
    opening = "probe" if "probe" in offered else offered[0]
    on = address.choice(parameters.ON, {text: TEXTS[text] for text in offered}, opening)
    by_weights = address.get(parameters.ON) == "weights"
    known = {name: s.title for name, s in (WEIGHT_SCORES if by_weights else SCORES).items()}
    default = "copying" if by_weights else None
    score = controls.pick(
        "Rank the heads by", parameters.HABIT, known, default, hidden=True, wrap=True
    )
    text: str = st.selectbox("on", width=310, **on)
    return score, text


def _explain_scores(probe: Trace | None, over_texts: Survey | None) -> None:
    """Explain the rows of maps: the probe and the survey's texts, if any, and the weights."""
    with st.expander("How this is measured"):
        if probe is not None:
            half = labels.pluralize(len(probe.token_ids) // 2, "different random tokens")
            prose.caption(labels.sentence("find.probe", half=half, seed=SEED))
        if over_texts is not None:
            passages = labels.pluralize(over_texts.n_passages, "passages")
            many = labels.sentence("find.survey", passages=passages, tokens=over_texts.n_tokens)
            prose.caption(f"{many} {literal(over_texts.about)}")
        prose.caption(labels.sentence("find.alone_by_weights"))


def _passages(over_texts: Survey, score: str) -> None:
    """List the survey's passages on which each head scored highest, and explain its ±."""
    documents = labels.pluralize(over_texts.n_documents, "documents")
    prose.caption(labels.sentence("find.margin", documents=documents))
    prose.markdown(f"#### Where each head scored highest on “{SCORES[score].title}”")
    prose.caption(labels.sentence("find.passages"))
    passages = [p._asdict() for p in over_texts.best if p.score == score]
    names = ["value", "layer", "head", "text", "document", "token"]
    output.table(
        pd.DataFrame(passages, columns=names).sort_values("value", ascending=False, kind="stable"),
        f"Passages with the highest score: {score}",
        of_run=False,
        column_config={"value": st.column_config.NumberColumn(score, format="%.3f")},
    )


def _rank_by_look(view: View, choices: DeltaGenerator) -> None:
    """Rank all heads by a query's attention to the chosen keys."""
    query, opening = _query_and_opening(view)
    with choices:
        by = _pick_measure()
    keys = _pick_keys(view, query, opening)
    numbers = attention_to_keys(view, query, keys)
    framed, link = ranked_heads.chosen_head(view), {parameters.QUERY: query, parameters.KEYS: keys}
    maps, ranking = ranked_heads.columns()
    if opening and address.get_chosen(parameters.KEYS) is None:
        maps.caption(  # without links to the glossary: it quotes the sentence's tokens
            labels.sentence(
                "find.example",
                head=f"{opening.layer}.{opening.head}",
                query=view.token_name(query),
                key=view.token_name(opening.key),
                weight=opening.weight,
            )
        )
    with maps, st.container(key="maps"):
        for column, (name, values) in zip(st.columns(2), numbers.items(), strict=True):
            with column:
                measures.draw_head_map(
                    values,
                    name,
                    framed,
                    f"{name} from query {query} to tokens {', '.join(map(str, keys))}, every head",
                    key=f"map_{name}",
                    made_by=(key_norm if name == GIVEN else attention_to_keys,),
                    choose=choose_map_head(link),
                    scale="unit" if name == WEIGHT else "amount",
                )
    with ranking:
        ranked_heads.draw(view, numbers, by)


def _query_and_opening(view: View) -> tuple[int, Link | None]:
    """Return the query, and the link from it that the mode opens with, if any.

    It is the chosen head's strongest link from the query; if no token is chosen, from any query.
    """
    links = run_cache.every_head(view.trace.key, False).links
    layer, head = controls.layer_and_head(view)
    query = view.query
    if query is None:
        keys_alone = address.raw(parameters.KEYS) is not None
        query = view.n_tokens - 1 if keys_alone else int(links.weights[layer, head].argmax())
    return query, links.at(layer, head, query) or next(iter(links.strongest(query, 1)), None)


def _pick_keys(view: View, query: int, opening: Link | None) -> list[int]:
    """Pick the keys: by default that of the ``opening`` link, or else the query itself."""
    seen = range(query + 1 if view.trace.causal else view.n_tokens)
    small = ":small[:gray[{}]]".format
    first = opening.key if opening else query
    bound = address.choices(parameters.KEYS, seen, [first])

    opened = {first} if address.get_chosen(parameters.KEYS) is None else set[int]()

    def choose() -> None:  # this makes the query a choice too, which stays
        keys = [n for n in st.session_state[parameters.KEYS.name] if n not in opened]
        address.put_all({parameters.QUERY: query, parameters.KEYS: keys})  # not the default key

    names = view.labels  # Streamlit keeps format functions for the session: no view in them
    with st.container(key="keys_of", horizontal=True, vertical_alignment="center"):
        prose.markdown(
            labels.sentence("find.attends", query=view.token_name(query)),
            width="content",
            help=prose.tip("Choose one or more keys here, and the query among the tokens above."),
        )
        chosen: list[int] = st.pills(
            "Tokens that are attended to",  # plain: screen readers announce every sign in it
            seen,
            selection_mode="multi",
            label_visibility="collapsed",
            format_func=lambda n: f"{small(n)} {literal(names[n])}",
            key=bound["key"],
            on_change=choose,
        )
    return sorted(chosen)


def _pick_measure() -> str:
    """Pick what heads are ranked by: ``WEIGHT`` or ``GIVEN``."""
    return controls.pick(
        "Rank the heads by",
        parameters.RANK,
        (WEIGHT, GIVEN),
        tip="**Attention weight**: the query's attention to these tokens together. **Vector "
        "length**: the length of the vector that they add to the stream, their weighted values put "
        "through the head's part of W_O (Kobayashi et al. 2020).",
    )


def attention_to_keys(view: View, query: int, keys: list[int]) -> dict[str, Scores]:
    """Return ``WEIGHT`` and ``GIVEN`` from query to keys, in every head: (n_layer, n_head) each."""
    every = range(view.model.config.n_layer)
    lengths = [key_norm(view.model, view.trace, n, query, keys) for n in every]
    weights = [view.trace.stage("weights", n)[0][:, query, keys].sum(axis=1) for n in every]
    return {WEIGHT: np.stack(weights), GIVEN: np.stack(lengths)}
