"""Heads by where they look: what a query takes from the keys that are chosen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.analysis.attribution import taken
from gpt2viz.analysis.looks import Look
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell, choose_map_head
from gpt2viz.app.frame import controls
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.views.head_ranking import beside, chosen_head, ranked
from gpt2viz.pictures.find import head_map
from gpt2viz.pictures.picture import Heatmaps

#: What a query takes from keys: how much of its attention, and the vector that comes of it.
WEIGHT, GIVEN = "attention weight", "length given"


def draw(view: View, choices: DeltaGenerator) -> None:
    """Every head by how much a query takes from the chosen keys."""
    query, opening = _pair(view)
    with choices:
        by = _look()
    keys = _keys(view, query, opening)
    numbers = given(view, query, keys)
    layer, head = chosen_head(view)
    maps, ranking = beside()
    with maps, st.container(key="maps"):
        for place, (name, values) in zip(st.columns(2), numbers.items(), strict=True):
            output.picture(
                Heatmaps(
                    f"{name} from query {query} to tokens {', '.join(map(str, keys))}, every head",
                    [head_map(values, name)],
                    scale="unit" if name == WEIGHT else "amount",
                    height=_map_height(view),
                    numbers=8,
                    row=layer,
                    column=head,
                    bar=name,
                    legend=False,
                ),
                view.colors,
                place=place,
                key=f"map_{name}",
                made_by=(taken,) if name == GIVEN else (given,),
                choose=_choose(query, keys),
            )
        if opening and address.is_default(parameters.KEYS):
            _opened(view, query, opening)
    with ranking:
        ranked(view, numbers, by, view.trace, view.labels)


def _choose(query: int, keys: list[int]) -> Callable[[Cell], None]:
    """A click in a map chooses its head; the pair, which may be its look, is chosen with it."""
    choose = choose_map_head()

    def clicked(cell: Cell) -> None:
        address.put(parameters.QUERY, query)
        address.put(parameters.KEYS, keys)
        choose(cell)

    return clicked


def _pair(view: View) -> tuple[int, Look | None]:
    """The query, and the look from it that the mode opens with, if there is one.

    That is the chosen head's hardest; where no token is chosen, of all its rows.
    """
    looks = run_cache.every_head(view.trace.key, False).looks
    layer, head = controls.layer_and_head(view)
    query = view.query
    if query is None:
        keys_alone = address.asked(parameters.KEYS) is not None
        query = view.n_tokens - 1 if keys_alone else int(looks.weights[layer, head].argmax())
    return query, looks.at(layer, head, query) or next(iter(looks.hardest(query, 1)), None)


def _keys(view: View, query: int, opening: Look | None) -> list[int]:
    """Pick the tokens that the query may look at; at first that of its ``opening`` look.

    Where there is none, at first the query itself.
    """
    seen = range(query + 1 if view.trace.causal else view.n_tokens)
    small, labels = ":small[:gray[{}]]".format, view.labels
    first = opening.key if opening else query
    bound = address.several(parameters.KEYS, seen, [first])

    opened = {first} if address.is_default(parameters.KEYS) else set[int]()

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


def _map_height(view: View) -> int:
    """Pixels for a map with numbers in its cells."""
    return max(260, 90 + 30 * view.model.config.n_layer)
