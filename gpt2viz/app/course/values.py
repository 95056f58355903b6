"""Why V isn't x: what a word is found by, and what it hands over, as two vectors."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import output, parameters, prose
from gpt2viz.app.course.parts import TOKENS, Book, code, pairs, picture, vectors
from gpt2viz.app.course.tables import table
from gpt2viz.labels import difference
from gpt2viz.textbook.attention import (
    FOUND_BY,
    HANDS_OVER,
    LOOKS_FOR,
    VALUE_KINDS,
    VALUE_TOLD,
    VALUE_WORDS,
    VALUE_X,
    hand_over,
)

_ALL = (*VALUE_KINDS, *VALUE_TOLD)


def draw(book: Book) -> None:
    """Three words with five numbers: two to be found by, three to hand over."""
    st.subheader("Why V isn't x", anchor="values")
    prose.markdown(
        "Why does a word hand over a value, and not its own vector x? Because being found and "
        "telling something are two jobs. Here the first two numbers of x say **what it looks "
        "like**: a thing, or an action. The other three say **what it tells**.\n\n"
        "$W_Q$ lets things look for actions, and actions for things. $W_K$ shows only the kind. "
        "$W_V$ hands over only what is told, so three numbers stand where keys have two."
    )
    left, right = st.columns(2, gap="large")
    with left:
        x = table(parameters.VALUES_X, "x: three words", VALUE_X, VALUE_WORDS, _ALL)
    with right:
        w_v = table(parameters.VALUES_WV, "W_V", HANDS_OVER, VALUE_TOLD, _ALL)
    itself, chosen = hand_over(x, LOOKS_FOR, FOUND_BY, w_v)
    columns = st.columns([4, 5, 4], gap="medium")
    with columns[0]:
        one = pairs("weights", chosen.weights, VALUE_WORDS, "attention weight")
        picture(book, "values_weights", [one], "unit", height=240)
    with columns[1]:
        one = vectors("V = x: output", itself.output, VALUE_WORDS, _ALL, TOKENS)
        picture(book, "values_itself", [one], height=240)
    with columns[2]:
        one = vectors("V = x W_Vᵀ: output", chosen.output, VALUE_WORDS, VALUE_TOLD, TOKENS)
        picture(book, "values_chosen", [one], height=240)
    gap = float((itself.weights - chosen.weights).abs().max())
    prose.markdown(
        f"The weights are the same both times: largest difference **{difference(gap)}**. With V = "
        "x the crane is also told that “ate” is an action, which was needed only to find it. Nor "
        "can such an output leave the range of the x that are mixed."
    )
    output.table(
        {
            "table": ["Q = x W_Qᵀ", "K = x W_Kᵀ", "V = x W_Vᵀ", "output"],
            "shape": [str(tuple(t.shape)) for t in (chosen.q, chosen.k, chosen.v, chosen.output)],
            "last axis": ["d_k, how a query asks", "d_k too, since it meets queries",
                          "d_v, free to choose", "d_v"],
        },
        "Sizes of keys and values",
        hide_index=True,
    )  # fmt: skip
    prose.caption(
        "d_k is the size of queries and keys, d_v that of values. GPT-2 uses the same size for "
        "both, $h_s$."
    )
    code(hand_over)
