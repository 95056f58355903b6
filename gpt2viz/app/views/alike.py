"""Find: heads that do the same as a drawn pattern, as a chosen head, or as one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import labels
from gpt2viz.analysis.patterns import Cell as PatternCell
from gpt2viz.analysis.patterns import Kind, draw, likeness, parse_cells, similarities, similarity
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell, choose_map_head, open_head
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls
from gpt2viz.app.view import View, whole_text
from gpt2viz.app.views import measures, ranked_heads
from gpt2viz.arrays import Array
from gpt2viz.pictures.find import (
    cells_of,
    group_table,
    groups,
    leaf_order,
    pattern_panel,
    similarity_map,
    tree,
)
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.run.key import RunKey

SIMILARITY = "cosine similarity"
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


def rank_by_pattern(view: View, choices: DeltaGenerator) -> None:
    """Rank all heads by their similarity to a drawn pattern."""
    with choices:
        kind, n, cells = _pick_pattern(view)
        words = "Click cells to paint or clear them."
        if view.n_tokens > _PAINTABLE:
            words = labels.sentence("find.unpaintable", most=_PAINTABLE)
        prose.caption(
            f"{words} **Cosine similarity**: 1 for a head that divides all its weight equally "
            "between a row's cells, 0 for one that gives them none.",
            width="content",
        )
    maps, ranking = ranked_heads.columns()
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
        _similarity_map(values, ranked_heads.chosen_head(view))
    with ranking:
        ranked_heads.draw(view, {SIMILARITY: values}, SIMILARITY)


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
    _, name, n = _PATTERNS[kind]
    if name:
        least = 0 if kind in ("back", "column") else 1
        counts = range(least, max(view.n_tokens, n + 1))
        n = st.selectbox(name, **address.choice(parameters.N, counts, n))
    if cells:
        st.button(
            f"Clear {len(cells)} painted cell{'s' if len(cells) > 1 else ''}",
            icon=":material/undo:",
            type="tertiary",
            on_click=address.put,
            args=(parameters.CELLS, ()),
        )
    return kind, n, cells


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


def rank_by_head(view: View, choices: DeltaGenerator) -> None:
    """Rank all heads by their similarity to a chosen one."""
    with choices:
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.switch(whole_text(view.n_tokens))
        prose.caption(
            "**Cosine similarity** of weights: 1 for the same, 0 for no key in common.",
            width="content",
        )
    maps, ranking = ranked_heads.columns()
    picture, result = maps.columns(2)
    with picture:
        measures.draw_weights(
            view, layer, head, key="chosen_head", as_lines=as_lines, height=340, numbers=0
        )
    with result:
        values = head_similarities(view, layer, head)
        _similarity_map(values, (layer, head))
    with ranking:
        ranked_heads.draw(view, {SIMILARITY: values}, SIMILARITY, as_lines=as_lines)


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


def draw_groups(view: View, _choices: DeltaGenerator) -> None:
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
    if not grouped:
        prose.markdown(labels.sentence("find.no_groups"))
        return grouped
    table = group_table(values, grouped, names)
    output.table(table, "Groups of heads that do the same", formats={"least alike": "%.3f"})
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
