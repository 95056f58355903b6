"""Attention by hand: first without anything learned, then with queries, keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course import guess
from gpt2viz.app.course.parts import SAME, TOKENS, Book, code, heading, pairs, picture, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import equals, mixture
from gpt2viz.arrays import Array
from gpt2viz.labels import difference
from gpt2viz.textbook import attention
from gpt2viz.textbook.attention import (
    FOUND_BY,
    HANDS_OVER,
    LOOKS_FOR,
    SCALE_DRAWS,
    VALUE_KINDS,
    VALUE_TOLD,
    VALUE_WORDS,
    VALUE_X,
    hand_over,
    largest_weight,
    random_scores,
    score_variance,
    sharpness,
)

_AXES = ("x₁", "x₂", "x₃")
#: The weight tables of one head, in the order in which they are used.
_WEIGHTS = (parameters.HAND_WQ, parameters.HAND_WK, parameters.HAND_WV)


def draw(book: Book) -> Iterator[Question]:
    """E19, E5, E6 and E22."""
    prose.markdown(
        "Attention is a few multiplications of small tables. Change any number, and all that "
        "follows from it changes too."
    )
    yield from _journey(book)
    yield from _sentence(book)
    yield from _scale(book)


def _journey(book: Book) -> Iterator[Question]:
    heading("E19")
    prose.markdown(
        "Six words, three numbers each, **nothing learned**: each vector is query, key and value "
        "at once."
        "\n\nA score is the dot product of two vectors. It is larger the more nearly they point "
        "the same way, and the longer they are. Each word becomes a mixture of all six: its "
        "**context vector**."
    )
    left, right = st.columns(2, gap="medium")
    with left:
        x = table(parameters.JOURNEY_X, "Six words", attention.JOURNEY_X, attention.JOURNEY, _AXES)
        positions = range(len(attention.JOURNEY))
        chosen: int = st.selectbox(
            "Query",
            positions,
            format_func=lambda n: f"{n} {attention.JOURNEY[n]}",
            **address.choice(parameters.JOURNEY_Q, positions),
        )
    steps = attention.attend(x, x, x, scaled=False)
    with right:
        panel = pairs("weights", steps.weights, attention.JOURNEY, "attention weight")
        picture(book, "journey_weights", [panel], "unit", height=330)
    for name, numbers in mixture(steps, chosen):
        st.latex(rf"\text{{{'context vector' if name == 'output' else name}}} {numbers}")
    code(attention.attend)
    own = [int(n) for n in np.asarray(steps.weights.argmax(1))]
    yield from [
        Question(
            "journey_self",
            "With the original numbers, **starts** looks most at a word other than itself. Which "
            "one?",
            "Look along its row for the cell with the strongest colour.",
            "A dot product is length times length times the cosine of the angle between them. "
            "“journey” points almost the same way as “starts” (cosine 0.9997) and is 1.3 % longer, "
            "which tips the balance. With learned queries and keys that need not happen.",
            answer="journey",
            also=("second", "second one"),
        ),
        Question(
            "journey_same",
            "Change the numbers so that **every** word looks most at itself.",
            "A dot product is largest where two vectors point the same way. How can six point in "
            "different directions?",
            "Vectors at right angles have the score 0. Three dimensions are enough for six "
            "directions, if both signs are used.",
            done=own == list(positions),
            note=_itself(own) if not np.allclose(x, attention.JOURNEY_X) else "",
        ),
    ]


def _itself(most: list[int]) -> str:
    """``most`` is for each word the place of the one that it looks at most."""
    other = [word for n, word in enumerate(attention.JOURNEY) if most[n] != n]
    return f"These don't yet: {', '.join(other)}."


def _sentence(book: Book) -> Iterator[Question]:
    heading("E5")
    prose.markdown(
        "Now three tables are **learned**: $W_Q$, $W_K$ and $W_V$. They turn each word's vector x "
        "into a query, a key and a value. Here their numbers are drawn at random, from seed 42."
    )
    st.latex(r"Q = xW_Q^\top \qquad K = xW_K^\top \qquad V = xW_V^\top")
    st.latex(r"\text{Attention}(Q,K,V)=\text{softmax}\!\left(\frac{QK^\top}{\sqrt{h_s}}\right)V")
    prose.caption(
        "Q, K and V hold the queries, keys and values, a row for each word; ⊤ turns rows into "
        "columns. $h_s$ (head size) is how many numbers a query has, here 2. Why scores are "
        "divided by $\\sqrt{h_s}$ comes last in this chapter."
    )
    labels, drawn = attention.SENTENCE, attention.drawn_weights()
    columns = [*st.columns(2), *st.columns(2)]
    with columns[0]:
        x = table(parameters.HAND_X, "x: four words", attention.SENTENCE_X, labels, _AXES[:2])
    weights = []
    for column, which, start in zip(columns[1:], _WEIGHTS, drawn, strict=True):
        with column:
            weights.append(table(which, which.says, start, ("out 1", "out 2"), _AXES[:2]))
    q, k, v = (attention.project(x, w) for w in weights)
    steps = attention.attend(q, k, v)
    made = zip("QKV", (q, k, v), strict=True)
    panels = [vectors(name, part, labels, ("1", "2"), TOKENS) for name, part in made]
    picture(book, "hand_qkv", panels, height=230)
    scores, mixed, outputs = st.columns([5, 5, 4], gap="medium")
    with scores:
        panel = pairs("raw scores QKᵀ", steps.scores, labels, "score")
        picture(book, "hand_scores", [panel], height=300)
    with mixed:
        panel = pairs("weights", steps.weights, labels, "attention weight")
        picture(book, "hand_weights", [panel], "unit", height=300)
    with outputs:
        panel = vectors("output", steps.output, labels, ("1", "2"), TOKENS)
        picture(book, "hand_output", [panel], height=300)
    st.latex(rf"\text{{output of crane}} {equals(steps.output[1])}")
    output.table(_shapes(steps), "Shapes")
    code(attention.drawn_weights, attention.project, attention.attend)
    first = (np.array(attention.SENTENCE_X), *map(np.asarray, drawn))
    changed = [not np.allclose(a, b) for a, b in zip((x, *weights), first, strict=True)]
    yield _equal_outputs(steps, changed)
    _fused(x, weights)
    draw_values(book)


def _equal_outputs(steps: attention.Steps, changed: list[bool]) -> Question:
    """``changed`` tells which of x, W_Q, W_K and W_V are not those of the text."""
    gap = float((steps.output - steps.output[0]).abs().max())
    touched = [name for name, n in (("x", 0), ("$W_Q$", 1), ("$W_V$", 3)) if changed[n]]
    note = ""
    if touched and gap < SAME:
        note = f"They are the same, but {' and '.join(touched)} should be left alone. Undo that."
    return Question(
        "hand_value",
        "Make the **output** the same for all four words without touching x, $W_Q$ or $W_V$. "
        f"Now they differ by up to {gap:.4f}.",
        "If all scores of a row are equal, every word takes the same mixture. Which table can "
        "make all keys equal?",
        "With $W_K = 0$ all keys and so all scores are 0, all weights 1/4, and every output is "
        "the mean of the values.",
        done=gap < SAME and not touched,
        note=note,
    )


def _fused(x: Array, weights: list[Array]) -> None:
    heading("E6")
    prose.markdown(
        "Three multiplications, each by a small table, give the same as one by all three tables, "
        "stacked. GPT-2 does it that way (`c_attn`), because one large multiplication is faster."
    )
    w_q, w_k, w_v = weights
    parts = zip(
        attention.fused(x, w_q, w_k, w_v), map(partial(attention.project, x), weights), strict=True
    )
    gap = max(float((stacked - separate).abs().max()) for stacked, separate in parts)
    prose.markdown(
        f"Largest difference between the two ways, with the numbers above: **{difference(gap)}**"
    )
    code(attention.project, attention.fused)


def _shapes(steps: attention.Steps) -> dict[str, list[str]]:
    names = ("x · W_Qᵀ and so on", "Q · Kᵀ", "/ √hs", "softmax", "weights · V")
    tensors = (steps.q, steps.scores, steps.scaled_scores, steps.weights, steps.output)
    return {
        "step": list(names),
        "shape": [str(tuple(tensor.shape)) for tensor in tensors],
        "meaning": [
            "one row per word: what it asks for, is found by, hands over",
            "one row per query, one column per key",
            "the same, smaller",
            "the same, each row sums to 1",
            "one row per word: what it has gathered",
        ],
    }


def _scale(book: Book) -> Iterator[Question]:
    heading("E22")
    prose.markdown(
        "The **variance** (var) of numbers tells how widely they scatter: the mean of their "
        "squared distances from their mean. A dot product of $h_s$ numbers is a sum of $h_s$ "
        "terms, so the larger $h_s$ is, the more widely it scatters. If the numbers are "
        "independent, with mean 0 and variance 1, the variance of the score is $h_s$."
        "\n\nWhen scores lie far apart, softmax gives nearly everything to one key. A small change "
        "in the scores then changes hardly anything, and little is learned. Dividing by "
        "$\\sqrt{h_s}$ brings the variance back to 1."
    )
    sizes = [2, 8, 32, 64, 128, 512]
    hs: int = st.segmented_control(
        "$h_s$", sizes, required=True, **address.choice(parameters.HS, sizes)
    )
    raw, scaled = score_variance(hs)
    st.latex(rf"\text{{var}}(q \cdot k) = h_s = {hs} \qquad \sqrt{{h_s}} {equals(hs**0.5)}")
    left, right = st.columns(2)
    left.metric("Variance of q·k, measured", f"{raw:.1f}", help="Over 40,000 random pairs.")
    right.metric("Variance of q·k / √hs, measured", f"{scaled:.3f}")
    scores = random_scores(hs)
    both = [sharpness(scores, divisor).mean(0) for divisor in (1, hs**0.5)]
    keys = ("largest", "2nd", "3rd", *(f"{n}th" for n in range(4, 9)))
    title = f"mean weights of eight random keys, {SCALE_DRAWS} draws"
    panel = vectors(
        title, both, ("unscaled", "divided by √hs"), keys, ("scores", "weight, by size")
    )
    picture(book, "sharpness", [panel], "unit", height=190)
    spreads = largest_weight(scores, 1), largest_weight(scores, hs**0.5)
    ranges = (
        f"**{spread.mean:.2f}** ({spread.low:.2f} to {spread.high:.2f})" for spread in spreads
    )
    prose.markdown(
        "The largest weight: its mean, and the range that holds the middle eight in ten draws. "
        "Unscaled {}, divided by √hs {}. A single draw may show the opposite.".format(*ranges)
    )
    guess.shown("scale")
    code(score_variance, random_scores, sharpness, largest_weight)
    yield from [
        Question(
            "scale_one",
            "Find an $h_s$ for which the largest weight without scaling is **more than 0.9** on "
            "average.",
            "The more numbers a query has, the further apart the scores.",
            "Nearly one-hot: the other seven keys share less than a tenth, and a small change in "
            "their scores changes next to nothing.",
            done=spreads[0].mean > 0.9,
        ),
    ]


_TELLING = (*VALUE_KINDS, *VALUE_TOLD)


def draw_values(book: Book) -> None:
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
        x = table(parameters.VALUES_X, "x: three words", VALUE_X, VALUE_WORDS, _TELLING)
    with right:
        w_v = table(parameters.VALUES_WV, "W_V", HANDS_OVER, VALUE_TOLD, _TELLING)
    itself, chosen = hand_over(x, LOOKS_FOR, FOUND_BY, w_v)
    columns = st.columns([4, 5, 4], gap="medium")
    with columns[0]:
        panel = pairs("weights", chosen.weights, VALUE_WORDS, "attention weight")
        picture(book, "values_weights", [panel], "unit", height=240)
    with columns[1]:
        panel = vectors("V = x: output", itself.output, VALUE_WORDS, _TELLING, TOKENS)
        picture(book, "values_itself", [panel], height=240)
    with columns[2]:
        panel = vectors("V = x W_Vᵀ: output", chosen.output, VALUE_WORDS, VALUE_TOLD, TOKENS)
        picture(book, "values_chosen", [panel], height=240)
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
    )  # fmt: skip
    prose.caption(
        "d_k is the size of queries and keys, d_v that of values. GPT-2 uses the same size for "
        "both, $h_s$."
    )
    code(hand_over)
