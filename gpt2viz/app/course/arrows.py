"""E4 as geometry: arrows to move, values mixed tip to tail, the temperature."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.components import arrows
from gpt2viz.app.course.parts import Book, code
from gpt2viz.app.course.tables import LARGEST
from gpt2viz.textbook import attention
from gpt2viz.textbook.attention import Steps

_HEATS = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]


def temperature() -> float:
    """What softmax divides the scores by, which is picked further down."""
    address.choice(parameters.CRANE_HEAT, _HEATS)
    chosen: float = address.chosen(parameters.CRANE_HEAT)
    return chosen


def draw(
    book: Book,
    found: Steps,
    words: tuple[str, ...],
    axes: tuple[str, str],
    moved: Callable[[list[float], list[float], list[float]], None],
) -> None:
    """The first word's query, all keys and values; ``moved`` takes all three after a move."""
    prose.markdown(
        "**As arrows.** Two numbers are an arrow in a plane. Drag the tip of the query, a key or a "
        "value; by keyboard, go there with Tab and press the arrow keys. Scores and weights move "
        "along. The tables follow when you let go."
        "\n\nFrom each key a dashed line falls on the line of the query. The score is the length "
        "of the query times how far out that point lies. Behind the start, it counts as minus."
        "\n\nIn the second plane each value is cut down to its weight. Put tip to tail, these "
        "pieces end at the new vector."
    )
    query, weights = found.q[0], found.weights[0]
    drawn = arrows.Arrows(
        words,
        axes,
        query,
        found.k,
        attention.shadows(query, found.k),
        found.scores[0],
        weights,
        found.v,
        attention.tip_to_tail(weights, found.v),
        temperature(),
    )
    arrows.draw(drawn, book.colors, key="crane_arrows", largest=LARGEST, moved=moved)
    prose.markdown(
        "The **temperature** t divides the scores before softmax. Near 0 the largest score takes "
        "all the weight. The larger t is, the more even the weights are."
    )
    st.select_slider("Temperature t", _HEATS, **address.choice(parameters.CRANE_HEAT, _HEATS))
    code(attention.shadows, attention.tip_to_tail)
