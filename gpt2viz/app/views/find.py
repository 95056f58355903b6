"""Find: heads by what they do, what they attend to, a drawn pattern, or their wiring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import CheckpointError, labels
from gpt2viz.analysis.attribution import key_norm
from gpt2viz.analysis.patterns import Cell as PatternCell
from gpt2viz.analysis.patterns import Kind, draw, likeness, parse_cells, similarities, similarity
from gpt2viz.analysis.scores import SCORES, SEED, Scores, head_scores
from gpt2viz.analysis.top_attention import Link
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES, weight_scores
from gpt2viz.app import address, jobs, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import (
    Cell,
    choose_head,
    choose_map_head,
    choose_named_head,
    choose_no_head,
    open_head,
)
from gpt2viz.app.components import lines
from gpt2viz.app.components.lines import Lined
from gpt2viz.app.frame import controls, page_fragment, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View, whole_text
from gpt2viz.app.views import measures, wiring
from gpt2viz.app.views.measures import draw_weights
from gpt2viz.arrays import Array
from gpt2viz.pictures.find import (
    SMALL,
    WEIGHTS_ALONE,
    atlas,
    best_heads,
    cells_of,
    group_table,
    groups,
    leaf_order,
    pattern_panel,
    ranking,
    similarity_map,
    tree,
)
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.pooling import GRID
from gpt2viz.run.key import RunKey
from gpt2viz.run.trace import Trace
from gpt2viz.survey.stored import Survey, read_survey

SIMILARITY = "cosine similarity"
#: Value in the address -> which text the heads are measured on.
TEXTS = {
    "sentence": "your sentence",
    "probe": "random tokens, repeated",
    "texts": "many texts",
    "weights": WEIGHTS_ALONE,
}
#: Measures of what a query takes from keys: attention weight, and size of contribution.
WEIGHT, GIVEN = "attention weight", "size of contribution"
#: The measures that heads are ranked by, as in the address.
RANKS = (WEIGHT, GIVEN)
#: Each pattern's label, the label of its number, and the number's default.
_PATTERNS: dict[Kind, tuple[str, str, int]] = {
    "back": ("A fixed number of tokens back", "Tokens back", 1),
    "column": ("One token, from everywhere", "Token", 0),
    "block": ("Blocks along the diagonal", "Tokens in a block", 3),
    "stripes": ("Stripes at regular distances back", "Period", 2),
    "empty": ("Nothing: paint it yourself", "", 0),
}
#: Most tokens of a text whose cells can be painted: those of a longer one are too small.
_PAINTABLE = 64
#: Least mean similarity of the heads of a group.
_AT_LEAST = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
#: How many of the best heads are drawn.
SHOWN = 4
#: Most pixels of the table, which scrolls, so that the pictures below it fit on the same screen.
_TABLE = 190


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.FIND, _modes, _hint)


def _modes(view: View) -> None:
    """Pick a mode and draw it."""
    choices = st.container(key="choices", horizontal=True, vertical_alignment="center")
    with choices:
        chosen = controls.mode(pages.FIND)
    if view.n_tokens == 1 and chosen in ("pattern", "head", "all"):
        st.info("With a single token all heads are alike. Write a longer sentence.")
        return
    ways = {
        "habit": _rank_by_habit,
        "look": _rank_by_look,
        "pattern": _rank_by_pattern,
        "head": _rank_by_head,
        "all": _group_by_similarity,
        "wiring": wiring.draw,
    }
    ways[chosen](view, choices)


def _rank_by_pattern(view: View, choices: DeltaGenerator) -> None:
    """Rank all heads by their similarity to a drawn pattern."""
    with choices:
        kind, n, cells = _pick_pattern(view)
        _pattern_note(view)
    maps, ranking = _columns()
    picture, result = maps.columns(2)
    pattern = draw(kind, view.n_tokens, n, cells, view.trace.causal)
    with picture, st.container(key="drawing"):
        panel = pattern_panel(pattern, view.trace)
        output.picture(
            Heatmaps("The pattern to look for", [panel], height=340, numbers=0),
            key="drawn",
            made_by=(draw,),
            choose=_paint(view),
        )
    if not pattern[1:].any():
        result.info("The pattern is empty: paint a cell below the first row, or choose a pattern.")
        return
    with result:
        values = _score_layers(view, lambda weights: similarity(weights, pattern))
        _similarity_map(values, _chosen_head(view))
    with ranking:
        _draw_ranking(view, {SIMILARITY: values}, SIMILARITY)


def _rank_by_head(view: View, choices: DeltaGenerator) -> None:
    """Rank all heads by their similarity to a chosen one."""
    with choices:
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.switch(whole_text(view.n_tokens))
        prose.caption(
            "**Cosine similarity** of weights: 1 for the same, 0 for no key in common.",
            width="content",
        )
    maps, ranking = _columns()
    picture, result = maps.columns(2)
    with picture:
        draw_weights(view, layer, head, key="chosen_head", as_lines=as_lines, height=340, numbers=0)
    with result:
        values = head_similarities(view, layer, head)
        _similarity_map(values, (layer, head))
    with ranking:
        _draw_ranking(view, {SIMILARITY: values}, SIMILARITY, as_lines=as_lines)


def _similarity_map(values: Scores, framed: tuple[int | None, int | None]) -> None:
    """Draw a map of every head's similarity, (n_layer, n_head), with the chosen one ``framed``."""
    with st.container(key="maps"):
        measures.draw_head_map(
            values,
            SIMILARITY,
            framed,
            "Similarity of every head",
            key="map_similarity",
            made_by=(similarity, likeness),
            choose=choose_map_head(),
        )


def _hint() -> str:
    """Return a hint on what choosing a token of the sentence does."""
    chosen, text = address.raw(parameters.FIND), address.raw(parameters.ON)
    if chosen == "look":
        return "Choose the token that attends (query)."
    if chosen == "wiring":
        return "Choose the second head's query."
    of_sentence = text in ("sentence", "texts", "weights") or chosen in ("pattern", "head")
    return sentence.LIGHT_UP if of_sentence and chosen != "all" else ""


def head_similarities(view: View, layer: int, head: int | None) -> Scores:
    """Return every head's similarity to one of them, or to a layer's mean: (n_layer, n_head)."""
    weights = view.trace.stage("weights", layer)[0]
    model = weights.mean(axis=0) if head is None else weights[head]
    return _score_layers(view, lambda weights: likeness(weights, model))


def _score_layers(view: View, score: Callable[[Array], Any]) -> Scores:
    """Return a ``score`` of each layer's weights (n_head, T, T), stacked: (n_layer, n_head)."""
    every = range(view.model.config.n_layer)
    scores: Scores = np.stack([score(view.trace.stage("weights", n)[0]) for n in every])
    return scores


def _rank_by_habit(view: View, choices: DeltaGenerator) -> None:
    """Draw maps of every head score, on each text and by the weights alone, and a ranking."""
    probe = run_cache.probe(view.trace.key)
    runs = {"sentence": view.trace} | ({} if probe is None else {"probe": probe})
    results = {text: run_cache.score_run(run.key) for text, run in runs.items()}
    scores = {text: result.scores for text, result in results.items()}
    prose.plugin_errors(*SCORES.errors, *chain(*(result.failed for result in results.values())))
    over_texts = survey(view)
    if over_texts:
        scores["texts"] = over_texts.mean
    with choices:
        prose.caption("A cell is a head: the stronger the colour, the more of it.", width="content")
        score, text = _pick_habit(scores)
    maps, ranking = _columns()
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
        _draw_ranking(view, columns, declared.title, text)
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
                _chosen_head(view),
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


def survey(view: View) -> Survey | None:
    """Return the model's scores across many texts, or None; show a message if they are broken."""
    try:
        return read_survey_of(view.model.name)
    except CheckpointError as error:
        st.warning(literal(str(error)), icon=":material/error:")
        return None


@st.cache_resource(max_entries=4, show_spinner="Reading the survey …")
def read_survey_of(name: str) -> Survey | None:
    """Return the survey beside a model, or None. Raises ``CheckpointError`` for a broken one."""
    model = run_cache.load(name)
    if model.weights is None:
        return None
    sizes = (model.config.n_layer, model.config.n_head)
    return read_survey(run_cache.model_folders()[name], model.weights, *sizes)


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
    framed, link = _chosen_head(view), {parameters.QUERY: query, parameters.KEYS: keys}
    maps, ranking = _columns()
    if opening and address.is_default(parameters.KEYS):
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
                    height=max(260, 90 + 30 * view.model.config.n_layer),  # numbers in its cells
                )
    with ranking:
        _draw_ranking(view, numbers, by)


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

    opened = {first} if address.is_default(parameters.KEYS) else set[int]()

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
        RANKS,
        tip="**Attention weight**: the query's attention to these tokens together. **Size of "
        "contribution**: the length of what they add to the stream, their weighted values put "
        "through the head's part of W_O (Kobayashi et al. 2020).",
    )


def attention_to_keys(view: View, query: int, keys: list[int]) -> dict[str, Scores]:
    """Return ``WEIGHT`` and ``GIVEN`` from query to keys, in every head: (n_layer, n_head) each."""
    every = range(view.model.config.n_layer)
    lengths = [key_norm(view.model, view.trace, n, query, keys) for n in every]
    weights = _score_layers(view, lambda weights: weights[:, query, keys].sum(axis=1))
    return {WEIGHT: weights, GIVEN: np.stack(lengths)}


def _pick_pattern(view: View) -> tuple[Kind, int, tuple[PatternCell, ...]]:
    """Pick a pattern, its number and the cells painted on it."""
    cells: tuple[PatternCell, ...] = address.values(
        parameters.CELLS, parse_cells, "pairs of query and key, such as 3:1,4:2"
    )
    bound = address.choice(parameters.PATTERN, list(_PATTERNS))
    change, args = bound.pop("on_change"), bound["args"]

    def begin_anew(*_args: str) -> None:
        with address.one_step():
            change(*args)
            address.put_all({parameters.CELLS: (), parameters.N: None})

    kind: Kind = st.selectbox(
        "Pattern",
        format_func=lambda k: _PATTERNS[k][0],
        on_change=begin_anew,
        **bound,
    )
    _, name, default = _PATTERNS[kind]
    n = default
    if name:
        least = 0 if kind in ("back", "column") else 1
        counts = range(least, max(view.n_tokens, default + 1))
        n = st.selectbox(name, **address.choice(parameters.N, counts, default))
    if cells:
        st.button(
            f"Clear {len(cells)} painted cell{'s' if len(cells) > 1 else ''}",
            icon=":material/undo:",
            type="tertiary",
            on_click=address.put,
            args=(parameters.CELLS, ()),
        )
    return kind, n, cells


def _pattern_note(view: View) -> None:
    """Explain a click on the pattern, and the number beside it."""
    prose.caption(
        (
            "Click cells to paint or clear them."
            if view.n_tokens <= _PAINTABLE
            else labels.sentence("find.unpaintable", most=_PAINTABLE)
        )
        + " **Cosine similarity**: 1 for a head that gives these cells all its weight, 0 for none.",
        width="content",
    )


def _paint(view: View) -> Callable[[Cell], None]:
    """Return a callback that adds or removes a clicked cell of the pattern."""
    paintable, causal = view.n_tokens <= _PAINTABLE, view.trace.causal

    def clicked(where: Cell) -> None:
        cell = PatternCell(where.row, where.column)
        if not paintable or (causal and cell.key > cell.query):
            return
        before = address.get(parameters.CELLS)
        without = tuple(other for other in before if other != cell)
        address.put(parameters.CELLS, without if cell in before else (*before, cell))

    return clicked


def _group_by_similarity(view: View, _choices: DeltaGenerator) -> None:
    """Draw the map of all heads and the table of groups; clicks open one head, or two."""
    config = view.model.config
    values, joined = _similarities(view.trace.key)
    if not np.isfinite(values).all():
        st.info("This run has numbers that are NaN or infinite: its heads can't be compared.")
        return
    names = [f"{layer}.{head}" for layer, head in np.ndindex(config.n_layer, config.n_head)]
    order = leaf_order(joined)
    words, picture = st.columns([4, 6], gap="large")
    with words:
        grouped = _pick_groups(values, joined, names)
    starts = cells_of(order)

    def open_pair(cell: Cell) -> None:
        _open_pair(*(divmod(order[starts[n]], config.n_head) for n in (cell.row, cell.column)))

    with picture, st.container(key="all_heads_alike"):
        if len(starts) < len(order):
            prose.caption(labels.sentence("find.pooled", heads=len(order)))
        what = "Similarity of every pair of heads, in groups"
        output.picture(
            similarity_map(what, values, order, grouped, names),
            key="alike_map",
            made_by=(similarities, tree),
            then=open_pair,
        )


def _pick_groups(values: Scores, joined: Scores, names: list[str]) -> list[list[int]]:
    """Explain the map and pick its groups: heads of at least the picked mean similarity."""
    prose.markdown(labels.sentence("find.pairs"))
    prose.caption(labels.sentence("find.pairs_together"))
    at_least = controls.pick(
        "Group heads whose mean similarity is at least",
        parameters.ALIKE,
        _AT_LEAST,
        tip="Two groups become one while the mean similarity of their heads is at least this.",
        wrap=True,
    )
    grouped = groups(joined, at_least)
    output.table(
        group_table(values, grouped, names),
        "Groups of heads that do the same",
        formats={"least alike": "%.3f"},
    )
    alone = len(names) - sum(map(len, grouped))
    prose.caption(labels.sentence("find.alone", alone=alone, heads=len(names)))
    return grouped


@st.cache_data(
    max_entries=8, hash_funcs=run_cache.BY_KEY, show_spinner="Comparing every two heads …"
)
def _similarities(key: RunKey) -> tuple[Scores, Scores]:
    values = similarities(run_cache.run(key))
    return values, tree(np.nan_to_num(values))


def _open_pair(a: tuple[int, int], b: tuple[int, int]) -> None:
    """Open *Head* for one head, or *Side by side* for two."""
    if a == b:
        open_head(*a)
    pair = {parameters.LAYER: a[0], parameters.HEAD: a[1]}
    pair |= {parameters.LAYER2: b[0], parameters.HEAD2: b[1]}
    heads = {parameters.DIFFERS: "head", parameters.WHOLE: False}
    st.switch_page(pages.SIDE_BY_SIDE.path, query_params=address.parameters(heads | pair))


def _columns() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return containers for maps of all heads, and beside them for the ranking."""
    maps, ranking = st.columns([8, 5], gap="medium")
    return maps.container(gap="xsmall"), ranking.container(gap="xsmall")


def _draw_ranking(
    view: View,
    columns: Mapping[str, Scores],
    by: str,
    text: str = "sentence",
    as_lines: bool | None = None,
) -> None:
    """Draw the heads in a table, largest ``by`` first, and pictures of the best; clicks choose one.

    ``columns`` holds (n_layer, n_head) by name, measured on ``text``, a key of ``TEXTS``.
    ``as_lines`` is given if the page draws the chosen head and the switch for lines itself; else
    both are drawn here, the chosen head instead of the best.
    """
    if np.isnan(columns[by]).all():
        st.info(labels.sentence("find.unmeasured", by=by))
        return
    chosen = _chosen_head(view) if as_lines is None else (None, None)
    run = (run_cache.probe(view.trace.key) if text == "probe" else None) or view.trace
    with st.container(key="listed", horizontal=True, vertical_alignment="center"):
        table = ranking(columns, by, _pick_layers(view))
        if as_lines is None:
            as_lines = lines.switch(whole_text(len(run.labels)))
    heads = list(zip(table["layer"].tolist(), table["head"].tolist(), strict=True))
    rows = [n for n, head in enumerate(heads) if head == chosen]
    st.session_state["ranking"] = {"selection": {"rows": rows}}  # also if chosen elsewhere
    output.table(
        table,
        f"Heads ranked by {by}" + ("" if text == "sentence" else f": {TEXTS[text]}"),
        key="ranking",
        of_run=text == "sentence",
        tallest=_TABLE,
        formats=dict.fromkeys(table.columns[2:], "%.3f"),
        choose=lambda row: choose_head(*heads[row]),
    )
    with st.container(key="best", gap="xsmall"):
        best = table[table[by].notna()].head(SHOWN)
        if chosen[0] is not None:
            _draw_head_buttons(*chosen)
            every = ranking(columns, by, [])
            best = every[(every["layer"] == chosen[0]) & (every["head"] == chosen[1])]
        if len(best):
            _draw_best(view, best, by, run, as_lines)


def _chosen_head(view: View) -> tuple[int, int] | tuple[None, None]:
    """Return the chosen layer and head, or (None, None) if they are defaults."""
    chosen = controls.layer_and_head(view)
    default = address.is_default(parameters.LAYER) and address.is_default(parameters.HEAD)
    return (None, None) if default else chosen


def _draw_head_buttons(layer: int, head: int) -> None:
    """Draw buttons from the chosen head: to *Head*, or back to the best heads."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Look inside this head", icon=":material/search:", type="tertiary"):
            open_head(layer, head)
        st.button(
            f"Back to the best {SHOWN}",
            icon=":material/close:",
            type="tertiary",
            key="best_instead",
            on_click=choose_no_head,
        )


def _draw_best(view: View, best: pd.DataFrame, by: str, trace: Trace, as_lines: bool) -> None:
    """Draw the weights of the best heads in two columns, or of a single head large."""
    alone = len(best) == 1
    name = f"{best['layer'].iloc[0]}.{best['head'].iloc[0]}"
    own = trace is view.trace  # else its tokens aren't those of the sentence
    alt = f"Weights of {f'head {name}' if alone else f'the heads that rank highest by {by}'}"
    alt += "" if own else f" on {TEXTS['probe']}"
    made_by = (Line(trace, "weights", int(best["layer"].iloc[0])),)
    size = GRID if alone else SMALL  # as lines, all cells are drawn
    panels = best_heads(trace, best, by, GRID if as_lines else size)
    picture = Heatmaps(
        alt,
        panels,
        n_columns=1 if alone else 2,
        height=250 if alone else 340,
        row=view.query if own else None,
        numbers=NUMBERS_FIT_LARGE if alone else 0,
    )
    to = lines.put_query if own else lines.ignore_click
    lines.draw(
        view,
        picture,
        [Lined(f"{alt}: {panel.title}", [panel.title], to) for panel in panels],
        as_lines=as_lines,
        here=len(trace.labels) <= size,
        key="best_heads",
        made_by=made_by,
        of_run=own,
        choose=choose_named_head,
    )


def _pick_layers(view: View) -> list[int]:
    """Pick the layers whose heads are listed; all if none is chosen."""
    every = range(view.model.config.n_layer)
    chosen: list[int] = st.pills(
        "Only layers",
        selection_mode="multi",
        wrap=True,
        help=prose.tip("Lists only the heads of these layers; with none chosen, all."),
        **address.choices(parameters.ONLY, every),
    )
    return chosen
