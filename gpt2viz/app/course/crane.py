"""A word with two meanings, and neighbours that settle it: attention, as numbers and as arrows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.components import book as controls
from gpt2viz.app.course import guess
from gpt2viz.app.course.parts import Book, code, heading, pairs, picture, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import LARGEST, table, write
from gpt2viz.app.course.written import mixture
from gpt2viz.textbook import attention
from gpt2viz.textbook.attention import Steps

_PLANE = ("animal", "machine")
#: The tables of each sentence.
_KEYS = {"bird": parameters.CRANE_K_BIRD, "machine": parameters.CRANE_K_MACHINE}
_VALUES = {"bird": parameters.CRANE_V_BIRD, "machine": parameters.CRANE_V_MACHINE}


def draw(book: Book) -> list[Question]:
    """E4."""
    prose.markdown(
        "A crane is a bird, or a machine. A table of word vectors has only **one** row for the "
        "word, so at first its vector must stand for both."
        "\n\nAttention lets the word look at its neighbours and take something from each. After "
        "that, the vector says which crane is meant."
        "\n\nEvery word has three vectors. Its **query** is what it looks for. Its **key** is what "
        "it is found by. Its **value** is what it hands over."
        "\n\nHow well a query fits a key is their **dot product**: multiply number by number, then "
        "add. That is the **score**."
        "\n\n**Softmax** turns the scores into weights. It raises e ≈ 2.718 to the power of each "
        "score, so that even a score below 0 gives a number above 0. Then it divides each of these "
        "numbers by their sum:"
    )
    st.latex(r"\text{softmax}(s)_i = \frac{e^{s_i}}{\sum_j e^{s_j}}")
    prose.caption("s are the scores, i is one of the words, and Σ adds up over all words j.")
    prose.markdown(
        "So the weights sum to 1, and the word that fits best gets the most. The new vector is the "
        "mixture of the values by these weights."
    )
    heading("E4")
    words, numbers = st.columns([2, 3], gap="large")
    with words:
        sentence = _choose()
        labels = attention.CRANE_WORDS[sentence]
        query = table(
            parameters.CRANE_Q, "Query of crane", attention.CRANE_QUERY, labels[:1], _PLANE
        )
        keys = table(_KEYS[sentence], "Keys", attention.CRANE_KEYS[sentence], labels, _PLANE)
        values = table(
            _VALUES[sentence], "Values", attention.CRANE_VALUES[sentence], labels, _PLANE
        )
    heat = temperature()
    steps = attention.attend(query.repeat(3, axis=0), keys, values, scaled=False, temperature=heat)
    first = attention.CRANE_KEYS[sentence]
    asked_as_before = bool(np.allclose(query, attention.CRANE_QUERY) and np.allclose(keys, first))
    with numbers:
        seen = guess.shown("crane", asked_as_before and sentence == "bird" and heat == 1)
        if seen:
            _pictures(book, steps, labels, heat)
    code(attention.attend)
    if seen:
        draw_arrows(book, steps, labels, _PLANE, partial(_moved, sentence))
    return _questions(steps, sentence, asked_as_before, heat, seen)


def _moved(sentence: str, query: list[float], keys: list[float], values: list[float]) -> None:
    write(parameters.CRANE_Q, attention.CRANE_QUERY, query)
    write(_KEYS[sentence], attention.CRANE_KEYS[sentence], keys)
    write(_VALUES[sentence], attention.CRANE_VALUES[sentence], values)


def _choose() -> str:
    sentence: str = st.segmented_control(
        "The crane is a",
        list(attention.CRANE_WORDS),
        required=True,
        **address.choice(parameters.CRANE, list(attention.CRANE_WORDS)),
    )
    return sentence


def _pictures(book: Book, steps: attention.Steps, labels: tuple[str, ...], heat: float) -> None:
    panel = pairs("weights of crane", steps.weights[:1], labels, "attention weight")
    picture(book, "crane_weights", [panel], "unit", height=170)
    step = {
        "scores": r"q \cdot K^\top",
        "weights": r"\text{softmax}" + ("" if heat == 1 else f"(s / {heat:g})"),
        "output": r"\text{new vector} = \text{weights}\cdot V",
    }
    for name, numbers in mixture(steps, 0, heat):
        st.latex(f"{step[name]} {numbers}")
    prose.caption(
        "q is the query of crane. K holds the keys and V the values, a row for each word. The sign "
        "⊤ turns rows into columns, so that q meets each key in turn."
    )
    after = np.vstack([steps.v, steps.output[:1]])
    rows, names = [*labels, "new crane"], ("vector", "dimension")
    panel = vectors("values, and the crane afterwards", after, rows, _PLANE, names)
    picture(book, "crane_vectors", [panel], height=250)


def _questions(
    steps: attention.Steps, sentence: str, asked_as_before: bool, heat: float, seen: bool
) -> list[Question]:
    """``asked_as_before`` tells that query and keys are those of the text, ``seen`` that the
    weights are shown.
    """
    heated = "" if heat == 1 else "The temperature had a say in it. Put it back to 1."
    machine = bool(steps.output[0, 1] > steps.output[0, 0])
    note = ""
    if machine and sentence != "bird":
        note = "That is “lifted steel”. Choose the bird."
    elif machine:
        note = heated or "The query or a key was changed too. Put it back."
    last = attention.CRANE_WORDS[sentence][-1]
    weight = float(steps.weights[0, -1])
    animal = float(steps.output[0, 0])
    return [
        Question(
            "crane_half",
            f"Change the query or a key so that **{last}** gets more than half of the "
            f"crane's attention.{f' Now it gets {weight:.2f}.' if seen else ''}",
            "A longer key that points the same way gives a larger dot product.",
            "Weights depend on queries and keys alone. The values have no say in them.",
            done=weight > 0.5 and heat == 1,
            note=heated if weight > 0.5 else "",
        ),
        Question(
            "crane_machine",
            "Leave the keys alone and change only **values**, so that the new crane is more "
            f"machine than animal after “ate fish”.{f' Now: animal {animal:.2f}.' if seen else ''}",
            "The weights stay. What must the words hand over, so that their mixture is a machine?",
            "Where a word looks and what it takes from there are two separate things.",
            done=machine and sentence == "bird" and asked_as_before and heat == 1,
            note=note,
        ),
    ]


_HEATS = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]


def temperature() -> float:
    """The divisor of softmax's scores, which is picked further down."""
    address.choice(parameters.CRANE_HEAT, _HEATS)
    chosen: float = address.get(parameters.CRANE_HEAT)
    return chosen


def draw_arrows(
    book: Book,
    steps: Steps,
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
    query, weights = steps.q[0], steps.weights[0]
    drawn = controls.Arrows(
        words,
        axes,
        query,
        steps.k,
        attention.shadows(query, steps.k),
        steps.scores[0],
        weights,
        steps.v,
        attention.tip_to_tail(weights, steps.v),
        temperature(),
    )
    controls.draw_arrows(drawn, book.colors, key="crane_arrows", largest=LARGEST, moved=moved)
    prose.markdown(
        "The **temperature** t divides the scores before softmax. Near 0 the largest score takes "
        "all the weight. The larger t is, the more even the weights are."
    )
    st.select_slider("Temperature t", _HEATS, **address.choice(parameters.CRANE_HEAT, _HEATS))
    code(attention.shadows, attention.tip_to_tail)
