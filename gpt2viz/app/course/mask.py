"""The causal mask: nobody looks ahead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course import guess, masks, motion, two_orders
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.parts import Book, code, heading, pairs, picture
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import equals, given
from gpt2viz.arrays import Array
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.textbook import attention
from gpt2viz.textbook.tensors import rows


def draw(book: Book) -> Iterator[Question]:
    """E7."""
    labels = attention.SENTENCE
    prose.markdown(
        "GPT-2 learns to predict the next token at **every** place of a text at once. If a token "
        "could look at those after it, the answer would be in plain sight and nothing would be "
        "learned."
        "\n\nSo before softmax, the scores of later keys are set to **−∞**, minus infinity. As "
        "$e^{-\\infty} = 0$, their weight is exactly 0, and the rest of the row still sums to 1."
    )
    heading("E7")
    left, right = st.columns([4, 5], gap="small")
    with left:
        scaled = table(
            parameters.MASK_SCORES, "Scaled scores", attention.PRINTED_SCALED, labels, labels
        )
        causal = st.toggle("Causal mask", **address.switch(parameters.MASK_ON))
    tensor = rows(scaled)
    shown = attention.hide_later(tensor) if causal else tensor
    weights = shown.softmax(dim=-1)
    masked = shown.isneginf()
    with right:
        seen = guess.shown("mask", causal and bool(np.allclose(scaled, attention.PRINTED_SCALED)))
        if seen:
            one = pairs("weights", weights, labels, "attention weight", masked)
            picture(book, "mask_weights", [one], "unit", height=330)
    for n, word in enumerate(labels if seen else ()):
        st.latex(rf"\text{{{word}: }} \text{{softmax}}({given(shown[n])}) {equals(weights[n])}")
    code(attention.hide_later)
    if seen:
        motion.mask_closes(book, scaled)
    prose.markdown(
        "The mask comes **before** softmax. Setting weights to 0 afterwards would leave rows that "
        "don't sum to 1. The mask needs no training: it is the same triangle for every text."
        "\n\nIn “crane ate fish” the crane stands **first**, and with the mask sees nothing but "
        "itself. A model that reads from the left must settle at a later word which crane is meant."
    )
    yield from _questions(causal, scaled, np.asarray(weights[3]))
    masks.draw(book, scaled)
    two_orders.draw(book)


def _after_softmax() -> Question:
    """What a row sums to where the mask comes too late, in the table as it was at first."""
    weights = np.asarray(rows(attention.PRINTED_SCALED).softmax(dim=-1))
    kept = np.where(hidden_pairs(np.arange(len(weights)), causal=True), 0, weights)
    sums = [f"{float(row.sum()):.4f}" for row in kept]
    first, itself = (float(x) for x in kept[1, :2])
    return Question(
        "mask_after",
        "Somebody puts the mask **after** softmax: it sets the weights of later words to 0, and "
        "nothing else. What does the row of **crane** sum to then, with the table's own numbers?",
        "Switch the mask off and look along its row. Which of the weights would stay?",
        f"“A” keeps {first:.4f} and “crane” {itself:.4f}. What went to later words is lost, so the "
        f"rows sum to {', '.join(sums[:-1])} and {float(sums[-1]):g}. Such sums give the mistake "
        "away. With the mask before softmax, those that stay share the whole.",
        answer=sums[1],
    )


def _questions(causal: bool, scaled: Array, last_row: Array) -> list[Question]:
    five, column = abs(scaled[0, 0] - 5) < 1e-6, np.ptp(scaled[:, 3]) == 0
    return [
        Question(
            "mask_row",
            "With the mask on, how many of the 16 weights are 0 in every text of four tokens?",
            "Count the cells above the diagonal.",
            "4 · 3 / 2 = 6. For T tokens it is T(T − 1)/2 of T²: almost half.",
            answer="6",
        ),
        _after_softmax(),
        Question(
            "mask_first",
            "Whatever you do to the first row, its weights stay the same while the mask is on. "
            "Change the score of “A” with itself to 5.",
            "Rows are queries, columns are keys. Where do “A” and “A” meet?",
            "Softmax of a single number is 1. The first column is another matter: token 0 is the "
            "only one that all later tokens can see. Many heads of real models rest there when "
            "they find nothing to do: an attention sink (Xiao et al. 2023).",
            done=bool(causal and five),
            told="The mask is off. Switch it on and look again." if five else "",
        ),
        Question(
            "mask_even",
            "Make “fish” look at all four words **equally**.",
            "Equal scores give equal weights, whatever their size.",
            "Softmax knows only differences: four equal scores, of any size, give 1/4 each.",
            done=bool(np.allclose(last_row, 0.25, atol=1e-4)),
            told="That is the column of “fish”: how others look at it. Its own row is the last one."
            if column
            else "",
        ),
    ]
