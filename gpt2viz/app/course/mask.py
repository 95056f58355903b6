"""The causal mask: no word sees a later one, and that alone tells the order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course import guess
from gpt2viz.app.course.parts import (
    PLANE,
    TOKENS,
    Book,
    code,
    heading,
    pairs,
    picture,
    play,
    vectors,
)
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import equals, given
from gpt2viz.arrays import Array
from gpt2viz.labels import difference
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.pictures import frames
from gpt2viz.pictures.frames import written
from gpt2viz.textbook import attention, embeddings
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
            panel = pairs("weights", weights, labels, "attention weight", masked)
            picture(book, "mask_weights", [panel], "unit", height=330)
    for n, word in enumerate(labels if seen else ()):
        st.latex(rf"\text{{{word}: }} \text{{softmax}}({given(shown[n])}) {equals(weights[n])}")
    code(attention.hide_later)
    if seen:
        mask_closes(book, scaled)
    prose.markdown(
        "The mask comes **before** softmax. Setting weights to 0 afterwards would leave rows that "
        "don't sum to 1. The mask needs no training: it is the same triangle for every text."
        "\n\nIn “crane ate fish” the crane stands **first**, and with the mask sees nothing but "
        "itself. A model that reads from the left must settle at a later word which crane is meant."
    )
    yield from _questions(causal, scaled, np.asarray(weights[3]))
    draw_added_mask(book, scaled)
    draw_two_orders(book)


def _after_softmax() -> Question:
    """The sum of a row where the mask comes too late, in the table as it was at first."""
    weights = np.asarray(rows(attention.PRINTED_SCALED).softmax(dim=-1))
    masked = np.where(hidden_pairs(np.arange(len(weights)), causal=True), 0, weights)
    sums = [f"{float(row.sum()):.4f}" for row in masked]
    first, itself = (float(x) for x in masked[1, :2])
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
            note="The mask is off. Switch it on and look again." if five else "",
        ),
        Question(
            "mask_even",
            "Make “fish” look at all four words **equally**.",
            "Equal scores give equal weights, whatever their size.",
            "Softmax knows only differences: four equal scores, of any size, give 1/4 each.",
            done=bool(np.allclose(last_row, 0.25, atol=1e-4)),
            note="That is the column of “fish”: how others look at it. Its own row is the last one."
            if column
            else "",
        ),
    ]


def mask_closes(book: Book, scores: ArrayLike) -> None:
    """Scaled scores (T, T) of the sentence of E7 on their way through the mask."""
    prose.markdown(
        "**Row by row.** Play it, or take one step at a time. On the left −∞ goes into the scores; "
        "on the right is softmax of what stands there. So later words lose their weight to the "
        "others."
    )
    states = attention.closing(scores)
    captions = ["No mask yet: each word looks at all four, and each row of weights sums to 1."]
    for n, word in enumerate(attention.SENTENCE):
        before, after = (
            ", ".join(written(float(x)) for x in states[at].weights[n]) for at in (n, n + 1)
        )
        later = " and ".join(attention.SENTENCE[n + 1 :])
        went = f"−∞ goes in for {later}. Its weights {before} become {after}."
        captions.append(f"Row “{word}”: {went if later else 'nothing comes later, so it stays.'}")
    play(book, frames.closing_mask(states, attention.SENTENCE, captions), parameters.MASK_STEP)
    code(attention.closing)


#: The context, texts, heads and tokens of the shapes.
_CONTEXT, _B, _NH, _T = 8, 2, 12, 4


def draw_added_mask(book: Book, scores: Array) -> None:
    """Scaled scores (T, T) with M added, and the shapes of a mask that is kept."""
    st.subheader("Filled in, or added", anchor="added")
    prose.markdown(
        "Formulas write the mask as a table **M** that is added to the scores. It holds 0 where a "
        "query may look, and −∞ where it may not. Code fills −∞ in with `masked_fill`. A number "
        "plus 0 stays, and a number plus −∞ is −∞, so both come to the same."
    )
    st.latex(r"\text{softmax}\!\left(\frac{QK^\top}{\sqrt{h_s}} + M\right)")
    st.latex(r"M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}")
    prose.caption("i is the place of the query, j that of the key.")
    tensor, labels = rows(scores), attention.SENTENCE
    M, added, filled = (
        attention.added_mask(_T),
        attention.add_mask(tensor),
        attention.hide_later(tensor),
    )
    made = {"M": M, "scaled scores + M": added, "masked_fill": filled}
    panels = [pairs(name, t, labels, "score", t.isneginf()) for name, t in made.items()]
    picture(book, "masks", panels, height=250)
    prose.caption("A masked cell holds −∞.")
    gap = float((added.softmax(dim=-1) - filled.softmax(dim=-1)).abs().max())
    prose.markdown(f"Largest difference between the two ways' weights: **{difference(gap)}**")
    code(attention.added_mask, attention.add_mask, attention.hide_later)
    prose.markdown(
        "The triangle is the same for every text, so code makes it once, for the longest one. It "
        "is kept as a **buffer**: it goes along with the module, but training leaves it alone. "
        "`.view(1, 1, n, n)` puts two axes of length 1 before it. They are stretched over the "
        f"texts of a batch and the heads. Here n = {_CONTEXT} tokens fit, and a text has T = {_T}:"
    )
    steps_of = attention.stored_mask_steps(_CONTEXT, _B, _NH, _T)
    output.table(
        {"step": [what for what, _ in steps_of], "shape": [size for _, size in steps_of]},
        "Shapes of a mask that is kept",
    )
    prose.caption(f"B = {_B} texts at once, nh = {_NH} heads.")
    code(attention.stored_mask_steps, attention.StoredMask)


def draw_two_orders(book: Book) -> None:
    """The words of E3 in both orders, with and without positions and mask."""
    st.subheader("What the mask tells about the order", anchor="two-orders")
    prose.markdown(
        "Attention adds up what words hand over. Where every word sees every other, each is given "
        "the same in “crane ate fish” as in “fish ate crane”, if no position tells them apart."
        "\n\nThe mask lets a word see only itself and those before it. That alone says something "
        "about the order. Models can learn from it without any other help (Haviv et al. 2022, "
        "*Transformer Language Models without Positional Encodings Still Learn Positional "
        "Information*). Here attention has nothing learned."
    )
    with st.container(horizontal=True, gap="large"):
        on = st.toggle("Add the position vectors", **address.switch(parameters.ORDER_ON))
        causal = st.toggle("Mask both sentences", **address.switch(parameters.ORDER_MASK))
    positions = np.array(embeddings.POSITION_VECTORS) * on
    both = (0, 1, 2), (2, 1, 0)
    mixtures = [embeddings.read_in_order(order, positions, causal=causal) for order in both]
    panels = [
        vectors(
            " ".join(embeddings.WORDS[n] for n in order), mixed, embeddings.WORDS, PLANE, TOKENS
        )
        for order, mixed in zip(both, mixtures, strict=True)
    ]
    picture(book, "order", panels, height=240)
    gap = float((mixtures[0] - mixtures[1]).abs().max())
    prose.markdown(f"Largest difference between the two sentences, rounded: **{gap:.4f}**")
    code(embeddings.look_up, embeddings.add_positions, embeddings.read_in_order, attention.attend)
