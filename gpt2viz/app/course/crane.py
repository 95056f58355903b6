"""A word with two meanings, settled by its neighbours: attention as numbers and as arrows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.components import mount
from gpt2viz.app.course import guess
from gpt2viz.app.course.parts import Book, fill, pairs, pick, picture, play, vectors
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import LARGEST, Table
from gpt2viz.app.course.written import mixture, product
from gpt2viz.pictures import frames
from gpt2viz.pictures.frames import Mixture
from gpt2viz.textbook import attention

_PLANE = ("animal", "machine")
_QUERY = Table(parameters.CRANE_Q, "Query of crane", attention.CRANE_QUERY, ("crane",), _PLANE)
_WORDS, _K, _V = attention.CRANE_WORDS, attention.CRANE_KEYS, attention.CRANE_VALUES
#: The tables of each sentence.
_KEYS = {
    "bird": Table(parameters.CRANE_K_BIRD, "Keys", _K["bird"], _WORDS["bird"], _PLANE),
    "machine": Table(parameters.CRANE_K_MACHINE, "Keys", _K["machine"], _WORDS["machine"], _PLANE),
}
_VALUES = {
    "bird": Table(parameters.CRANE_V_BIRD, "Values", _V["bird"], _WORDS["bird"], _PLANE),
    "machine": Table(
        parameters.CRANE_V_MACHINE, "Values", _V["machine"], _WORDS["machine"], _PLANE
    ),
}
_HEATS = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
#: Session key: the number of the last move of the arrows that the server has read.
_MOVES = "_arrows_moved"


def weights(book: Book, text: str) -> dict[str, Any]:
    """Draw a sentence's tables and the crane's weights, with ``text`` below the formulas."""
    left, right = st.columns([2, 3], gap="large")
    with left:
        sentence = pick("The crane is a", parameters.CRANE, list(_WORDS))
        labels = _WORDS[sentence]
        query = _QUERY.draw()
        keys, values = _KEYS[sentence].draw(), _VALUES[sentence].draw()
        heat = _temperature()
        hidden = st.toggle("Hide later words", **address.switch(parameters.CRANE_MASK))
    steps = attention.attend(
        query.repeat(3, axis=0), keys, values, scaled=False, causal=hidden, temperature=heat
    )
    as_before = bool(np.allclose(query, attention.CRANE_QUERY) and np.allclose(keys, _K[sentence]))
    as_before = as_before and not hidden
    book.values["hidden"] = hidden
    with right:
        seen = guess.reveal("crane", as_before and sentence == "bird" and heat == 1)
        if seen:
            _draw(book, text, steps, labels, heat)
    book.values.update(seen=seen, free=seen and not hidden, steps=steps, sentence=sentence)
    return _checks(steps, sentence, as_before, heat)


def _draw(
    book: Book, text: str, steps: attention.Steps, labels: tuple[str, ...], heat: float
) -> None:
    hidden = steps.masked_scores[:1].isneginf()
    panel = pairs("weights of crane", steps.weights[:1], labels, "attention weight", hidden)
    picture("crane_weights", [panel], "unit", height=170)
    for word, k, score in zip(labels, steps.k, steps.scores[0], strict=True):
        st.latex(rf"\text{{crane and {word}: }} {product(steps.q[0], k, float(score))}")
    step = {
        "scores": r"q \cdot K^\top",
        "weights": r"\text{softmax}" + ("" if heat == 1 else f"(s / {heat:g})"),
        "output": r"\text{new vector} = \text{weights}\cdot V",
    }
    for name, formula in mixture(steps, 0, heat):
        st.latex(f"{step[name]} {formula}")
    prose.caption(fill(text, book.values))
    after = np.vstack([steps.v, steps.output[:1]])
    rows, names = [*labels, "new crane"], ("vector", "dimension")
    panel = vectors("values, and the crane afterwards", after, rows, _PLANE, names)
    picture("crane_vectors", [panel], height=250)


def _checks(steps: attention.Steps, sentence: str, as_before: bool, heat: float) -> dict[str, Any]:
    """Check the questions; ``as_before`` is true if query and keys are the book's own."""
    heat_note = "" if heat == 1 else "The temperature had a say in it. Put it back to 1."
    weight, (animal, machine) = float(steps.weights[0, -1]), steps.output[0].tolist()
    note = heat_note or "The query or a key was changed too. Put it back."
    if sentence != "bird":
        note = "That is “lifted steel”. Choose the bird."
    return {
        "last": _WORDS[sentence][-1],
        "weight": f"{weight:.2f}",
        "animal": f"{animal:.2f}",
        "crane_half": Check(weight > 0.5 and heat == 1, heat_note if weight > 0.5 else ""),
        "crane_machine": Check(
            machine > animal and sentence == "bird" and as_before and heat == 1,
            note if machine > animal else "",
        ),
    }


def arrows(book: Book) -> None:
    """Draw the crane's query, all keys and values as movable arrows.

    Also draws the ``shadows`` of the keys (T, 2) on the query's line, and the ``ends`` (T + 1, 2)
    of the weighted values, tip to tail.
    """
    steps, sentence = book.values["steps"], book.values["sentence"]
    query, weights, words = steps.q[0], steps.weights[0], _WORDS[sentence]
    colors = output.page_outputs().colors

    def moved(message: Mapping[str, Any]) -> None:
        st.session_state[_MOVES] = int(message["count"])
        first, *keys = message["arrows"]
        _QUERY.write(first)
        _KEYS[sentence].write(keys)
        _VALUES[sentence].write(message["values"])

    mount(
        key="crane_arrows",
        data={
            "script": "arrows",
            "alt": f"Query and keys of {words[0]} as arrows, and the values that it mixes",
            "words": words,
            "axes": _PLANE,
            "arrows": _decimals(np.vstack([query, steps.k])),
            "shadows": _decimals(attention.shadows(query, steps.k)),
            "values": _decimals(steps.v),
            "ends": _decimals(attention.tip_to_tail(weights, steps.v)),
            "weights": _decimals(weights),
            "scores": _decimals(steps.scores[0]),
            "heat": _temperature(),
            "colors": {role: colors.shade(role, 1) for role in ("query", "key", "value")}
            | {"new": colors.shade(3, 4)},
            "largest": LARGEST,
            "count": st.session_state.get(_MOVES, 0),
        },
        on={"moved": moved},
    )


def _decimals(values: ArrayLike) -> Any:
    """Return float32 numbers as lists of the shortest decimals: 0.7 comes back as 0.7."""
    exact = np.asarray(values, np.float32)
    return np.reshape([float(str(x)) for x in exact.ravel()], exact.shape).tolist()


def mixtures(book: Book) -> None:
    """Draw the mixture in the plane, word by word, and then that of the other sentence."""
    query, chosen = book.values["steps"].q[:1], book.values["sentence"]

    def mixture_of(sentence: str) -> Mixture:
        keys, values = _KEYS[sentence].numbers(), _VALUES[sentence].numbers()
        steps = attention.attend(query, keys, values, scaled=False, temperature=_temperature())
        ends = attention.tip_to_tail(steps.weights[0], values)
        return Mixture(_WORDS[sentence], np.asarray(steps.weights[0]), values, np.asarray(ends))

    (other,) = set(_WORDS) - {chosen}
    both = mixture_of(chosen), mixture_of(other)
    play(frames.mixing(both, "new crane", _PLANE), parameters.MIX_STEP)


def temperature(book: Book) -> None:
    """Draw the slider of the temperature, which is read further up the page."""
    st.select_slider("Temperature t", **address.choice(parameters.CRANE_HEAT, _HEATS))


def _temperature() -> float:
    chosen: float = address.read(address.choice(parameters.CRANE_HEAT, _HEATS))
    return chosen
