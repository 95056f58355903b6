"""Attention by hand: first without learned weights, then with queries, keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.app import address, parameters
from gpt2viz.app.course import guess
from gpt2viz.app.course.parts import (
    SAME,
    TOKENS,
    Book,
    largest_gap,
    pairs,
    pick,
    picture,
    vectors,
)
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import equals, mixture
from gpt2viz.labels import difference
from gpt2viz.textbook import attention
from gpt2viz.textbook.attention import (
    JOURNEY,
    JOURNEY_X,
    SENTENCE,
    SENTENCE_X,
    VALUE_KINDS,
    VALUE_WORDS,
    VALUE_WRITTEN,
)

_AXES = ("x₁", "x₂", "x₃")
#: The dimensions of E5's words and, with its named tables, of queries, keys and values.
_NAMED = ("object", "action")
#: The weight tables of one head, in the order in which they are used.
_WEIGHTS = (parameters.HAND_WQ, parameters.HAND_WK, parameters.HAND_WV)


def journey(book: Book) -> dict[str, Check]:
    """Draw attention among six words, whose vectors serve as queries, keys and values at once."""
    left, right = st.columns(2, gap="medium")
    with left:
        x = Table(parameters.JOURNEY_X, "Six words", JOURNEY_X, JOURNEY, _AXES).draw()
        positions = range(len(JOURNEY))
        chosen: int = st.selectbox(
            "Query",
            format_func=lambda n: f"{n} {JOURNEY[n]}",
            **address.choice(parameters.JOURNEY_Q, positions),
        )
    steps = attention.attend(x, x, x, scaled=False)
    panel = pairs("weights", steps.weights, JOURNEY, "attention weight")
    picture("journey_weights", [panel], "unit", height=330, slot=right)
    for name, numbers in mixture(steps, chosen):
        st.latex(rf"\text{{{'context vector' if name == 'output' else name}}} {numbers}")
    others = [word for n, word in enumerate(JOURNEY) if steps.weights[n].argmax() != n]
    edited = not np.allclose(x, JOURNEY_X)
    note = f"These don't yet: {', '.join(others)}." if edited else ""
    return {"journey_same": Check(not others, note), "journey_self": Check(near=_wrong_answers())}


def _wrong_answers() -> dict[str, str]:
    """Return a hint for each wrong word: the weight that "starts" originally gives it."""
    steps = attention.attend(JOURNEY_X, JOURNEY_X, JOURNEY_X, scaled=False)
    weights = steps.weights[JOURNEY.index("starts")].tolist()
    return {
        word: f"“starts” gives it {weight:.4f}. Another word gets more."
        for word, weight in zip(JOURNEY, weights, strict=True)
        if weight < max(weights)
    }


def head(book: Book) -> dict[str, Any]:
    """Draw four words passing through one head, whose tables can be edited."""
    kinds = ["named", "random"]
    named = pick("Tables", parameters.HAND_TABLES, kinds) == "named"
    drawn: Sequence[ArrayLike] = attention.NAMED_WEIGHTS if named else attention.random_weights()
    rows = _NAMED if named else ("out 1", "out 2")
    columns = [*st.columns(2), *st.columns(2)]
    x = Table(parameters.HAND_X, "x: four words", SENTENCE_X, SENTENCE, _NAMED).draw(columns[0])
    weights = []
    for column, which, start in zip(columns[1:], _WEIGHTS, drawn, strict=True):
        weights.append(Table(which, which.says, start, rows, _NAMED).draw(column))
    q, k, v = (attention.project(x, w) for w in weights)
    steps = attention.attend(q, k, v)
    made = zip("QKV", (q, k, v), strict=True)
    panels = [vectors(name, part, SENTENCE, rows, TOKENS) for name, part in made]
    picture("hand_qkv", panels, height=230)
    scores = [
        pairs("raw scores QKᵀ", steps.scores, SENTENCE, "score"),
        pairs("scaled scores QKᵀ / √2", steps.scaled_scores, SENTENCE, "score"),
    ]
    picture("hand_scores", scores, height=300)
    mixed, outputs = st.columns([5, 4], gap="medium")
    panel = pairs("weights", steps.weights, SENTENCE, "attention weight")
    picture("hand_weights", [panel], "unit", height=300, slot=mixed)
    panel = vectors("output", steps.output, SENTENCE, rows, TOKENS)
    picture("hand_output", [panel], height=300, slot=outputs)
    st.latex(rf"\text{{output of crane}} {equals(steps.output[1])}")
    changed = {
        "x": not np.allclose(x, SENTENCE_X),
        "$W_Q$": not np.allclose(weights[0], drawn[0]),
        "$W_V$": not np.allclose(weights[2], drawn[2]),
    }
    touched = [name for name in changed if changed[name]]
    gap = largest_gap(steps.output, steps.output[0])
    note = f"They are the same, but {' and '.join(touched)} should be left alone. Undo that."
    stages = ("q", "scores", "scaled_scores", "weights", "output")
    return {f"{stage}_shape": (1, *getattr(steps, stage).shape) for stage in stages} | {
        "turned_shape": (1, *steps.k.mT.shape),
        "x": x,
        "tables": weights,
        "random": not named,
        "gap": f"{gap:.4f}",
        "hand_value": Check(gap < SAME and not touched, note if touched and gap < SAME else ""),
    }


def compare_fused(book: Book, text: str) -> None:
    """Compare queries, keys and values by one fused table with those by three tables."""
    x, tables = book.values["x"], book.values["tables"]
    both = zip(attention.qkv(x, *tables), map(partial(attention.project, x), tables), strict=True)
    book.write(text, difference=difference(max(largest_gap(*pair) for pair in both)))


def values(book: Book, text: str) -> dict[str, Any]:
    """Draw three words with five numbers: two to be matched by, three to pass on as values."""
    numbers = (*VALUE_KINDS, *VALUE_WRITTEN)
    left, right = st.columns(2, gap="large")
    x = Table(parameters.VALUES_X, "x: three words", attention.VALUE_X, VALUE_WORDS, numbers).draw(
        left
    )
    w_v = Table(parameters.VALUES_WV, "W_V", attention.VALUE_WV, VALUE_WRITTEN, numbers).draw(right)
    itself, chosen = attention.compare_values(x, attention.VALUE_WQ, attention.VALUE_WK, w_v)
    columns = st.columns([4, 5, 4], gap="medium")
    panel = pairs("weights", chosen.weights, VALUE_WORDS, "attention weight")
    picture("values_weights", [panel], "unit", height=240, slot=columns[0])
    panel = vectors("V = x: output", itself.output, VALUE_WORDS, numbers, TOKENS)
    picture("values_itself", [panel], height=240, slot=columns[1])
    panel = vectors("V by its own table: output", chosen.output, VALUE_WORDS, VALUE_WRITTEN, TOKENS)
    picture("values_chosen", [panel], height=240, slot=columns[2])
    book.write(text, difference=difference(largest_gap(itself.weights, chosen.weights)))
    return {
        f"{name}_shape": tuple(getattr(chosen, name).shape) for name in ("q", "k", "v", "output")
    }


def scale(book: Book, text: str) -> dict[str, Check]:
    """Draw the variance of scores, and the resulting weights, scaled and unscaled."""
    hs = pick("$h_s$", parameters.HS, [2, 8, 32, 64, 128, 512])
    raw, scaled = attention.score_variance(hs)
    st.latex(rf"\text{{var}}(q \cdot k) = h_s = {hs} \qquad \sqrt{{h_s}} {equals(hs**0.5)}")
    left, right = st.columns(2)
    left.metric("Variance of q·k, measured", f"{raw:.1f}", help="Over 40,000 random pairs.")
    right.metric("Variance of q·k / √hs, measured", f"{scaled:.3f}")
    scores = attention.random_scores(hs)
    both = [attention.sharpness(scores, divisor).mean(0) for divisor in (1, hs**0.5)]
    keys = ("largest", "2nd", "3rd", *(f"{n}th" for n in range(4, 9)))
    title = f"mean weights of eight random keys, {attention.SCALE_DRAWS} draws"
    panel = vectors(
        title, both, ("unscaled", "divided by √hs"), keys, ("scores", "weight, by size")
    )
    picture("sharpness", [panel], "unit", height=190)
    spreads = [attention.largest_weight(scores, divisor) for divisor in (1, hs**0.5)]
    unscaled, divided = (
        f"**{spread.mean:.2f}** ({spread.low:.2f} to {spread.high:.2f})" for spread in spreads
    )
    book.write(text, unscaled=unscaled, divided=divided)
    guess.reveal("scale")
    return {"scale_one": Check(spreads[0].mean > 0.9)}
