"""Find a head: by what it does, by where it looks, or by a pattern that you draw."""

import streamlit as st

from gpt2viz.analysis.attribution import taken
from gpt2viz.analysis.patterns import drawn, likeness, similarity
from gpt2viz.analysis.scores import Scores, distance, entropy, head_scores, largest, weight_on
from gpt2viz.app import output, prose, run_cache
from gpt2viz.app.clicks import on_click, open_head
from gpt2viz.app.components import lines, pattern_grid
from gpt2viz.app.frame import controls, page
from gpt2viz.app.views import find, similar_heads, zoom
from gpt2viz.app.views.head_ranking import ranked
from gpt2viz.app.views.stages import draw_weights
from gpt2viz.labels import label
from gpt2viz.pictures.plotly.find import atlas, drawn_pattern, head_map
from gpt2viz.pictures.plotly.heatmap import heatmaps

SIMILARITY = "cosine similarity"
#: What the scores of heads are made of.
SCORE_PARTS = (weight_on, distance, entropy, largest)


def by_habit() -> None:
    """Maps of every score of every head, on the sentence and on random tokens said twice."""
    name, causal = view.model.name, view.trace.causal
    probe = run_cache.probe(name, causal)
    runs = {"sentence": view.trace} | ({} if probe is None else {"probe": probe})
    scores = {
        text: run_cache.head_scores(name, run.token_ids, causal) for text, run in runs.items()
    }
    across = find.survey(view)
    if across:
        scores["texts"] = across.mean
    find.explain(probe, across)
    with st.container(key="atlas"):
        maps = atlas({find.TEXTS[text]: found for text, found in scores.items()}, view.colors)
        output.picture(
            maps,
            key="atlas_maps",
            alt="Every score of every head, on each text",
            made_by=(head_scores, *SCORE_PARTS),
        )
    score, text = find.habit(scores)
    columns = {score: scores[text][score]}
    if across and text == "texts":
        columns["± (95 %)"] = across.margin[score]
    run = runs.get(text, view.trace)
    labels = tuple(label(part) for part in run.token_bytes)
    ranked(view, columns | scores[text], score, run, labels)
    if across and text == "texts":
        find.interval_note(across)
        find.passages(across, score)


def by_look() -> None:
    """Every head by how much a query takes from the chosen keys."""
    query = view.n_tokens - 1 if view.query is None else view.query
    keys, by = find.keys(view, query), find.look()
    if not keys:
        return
    numbers = find.given(view, query, keys)
    with st.container(key="maps"):
        for place, (name, values) in zip(st.columns(2), numbers.items(), strict=True):
            figure = heatmaps(
                [head_map(values, name)],
                view.colors,
                scale="unit" if name == find.WEIGHT else "amount",
                height=find.map_height(view),
                numbers=8,
                bar=name,
                legend=False,
            )
            output.picture(
                figure,
                place=place,
                key=f"map_{name}",
                alt=f"{name} from query {query} to tokens {', '.join(map(str, keys))}, every head",
                made_by=(taken,) if name == find.GIVEN else (find.given,),
            )
    ranked(view, numbers, by, view.trace, view.labels)


def by_pattern() -> None:
    """Every head by how much it is like a drawn pattern."""
    choice, picture, found = st.columns([3, 4, 4], gap="medium")
    with choice:
        kind, n, cells = pattern_grid.pattern(view)
    wanted = drawn(kind, view.n_tokens, n, cells, view.trace.causal)
    with picture, st.container(key="drawing"):
        panel = drawn_pattern(wanted, view.labels, view.trace)
        figure = heatmaps([panel], view.colors, height=340, numbers=0)
        output.picture(figure, key="drawn", alt="The pattern to look for", made_by=(drawn,))
    on_click("drawing", pattern_grid.paint(view))
    if not wanted[1:].any():
        found.info("The pattern is empty: paint a cell below the first row, or choose a pattern.")
        return
    with found:
        values = find.like(view, wanted)
        similarity_map(values)
    ranked(view, {SIMILARITY: values}, SIMILARITY, view.trace, view.labels)


def by_head() -> None:
    """Every head by how much it is like a chosen one."""
    choice, picture, found = st.columns([3, 4, 4], gap="medium")
    with choice:
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.wanted(zoom.whole_text(view.n_tokens))
        prose.caption(
            "The number is the **cosine similarity** of two heads' weights on this sentence, over "
            "all rows but the first: 1 for the same weights, 0 where no key gets weight from both."
        )
    with picture:
        draw_weights(view, layer, head, key="chosen_head", as_lines=as_lines, height=340)
    with found:
        values = find.alike(view, layer, head)
        similarity_map(values)
    ranked(view, {SIMILARITY: values}, SIMILARITY, view.trace, view.labels, as_lines)


def all_heads() -> None:
    """Every head beside those that do the same."""
    similar_heads.draw(view)


def similarity_map(values: Scores) -> None:
    """A map of every head's similarity, (n_layer, n_head)."""
    with st.container(key="maps"):
        figure = heatmaps(
            [head_map(values, SIMILARITY)],
            view.colors,
            height=340,
            numbers=8,
            bar=SIMILARITY,
            legend=False,
        )
        output.picture(
            figure,
            key="map_similarity",
            alt="Similarity of every head",
            made_by=(similarity, likeness),
        )


view = page.open_page("Find a head", find.choosing())
WAYS = {"habit": by_habit, "look": by_look, "pattern": by_pattern, "head": by_head}
way = find.way()
find.stop_where_all_are_alike(view, way)
WAYS.get(way, all_heads)()
for area in ("atlas", "maps"):
    if clicked := on_click(area):
        open_head(clicked.row, clicked.column)
