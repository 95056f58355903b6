"""From the last vector to the next word."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from gpt2viz import sampling_distribution
from gpt2viz.analysis.sampling import softmax, surprise
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.course import guess
from gpt2viz.app.course.parts import PLANE, Book, pick, picture, vectors
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import decimals, equals
from gpt2viz.labels import percent, pluralize
from gpt2viz.textbook import logits

_WORDS = logits.FOUR


def four_words(book: Book) -> dict[str, Any]:
    """Draw the logits and probabilities of four words."""
    left, right = st.columns([3, 5], gap="large")
    temperatures = [0.1, 0.5, 1.0, 2.0, 10.0]
    with left:
        x = Table(parameters.LAST_X, "Last vector", logits.LAST, ("last",), PLANE).draw()
        rows = Table(
            parameters.LAST_ROWS, "A vocabulary of four", logits.EMBEDDING, _WORDS, PLANE
        ).draw()
        heat: float = st.selectbox(
            "Temperature t",
            help=prose.tip(
                "Divides the logits: below 1 the likely become likelier, above 1 less so."
            ),
            **address.choice(parameters.HEAT, temperatures),
        )
    same_table = bool(np.allclose(rows, logits.EMBEDDING))
    scores = logits.logits(x, rows)[0]
    chances = np.asarray(logits.next_token(scores, heat))
    with right:
        names = ("", "next word")
        picture("logits", [vectors("logits z", scores, ("z",), _WORDS, names)], height=170)
        at_first = same_table and heat == 1 and bool(np.allclose(x, logits.LAST))
        if seen := guess.reveal("next", at_first):
            panel = vectors("probabilities p", chances, ("p",), _WORDS, names)
            picture("chances", [panel], "unit", height=170)
    steel, even = int(scores.argmax()) == 1, bool(chances.max() < 0.3 and chances.min() > 0.2)
    touched = "“steel” leads, but the table was changed too. Put it back."
    near_already = "They are, but because of their logits. Let the temperature do it."
    return {
        "scores": scores,
        "z": equals(scores, decimals(scores, lambda z: softmax(z / heat), chances)),
        "seen": seen,
        "heat": f"{heat:g}",
        "p": equals(chances),
        "next_steel": Check(steel and same_table, touched if steel else ""),
        "next_even": Check(even and heat > 1, near_already if even else ""),
    }


def loss(book: Book) -> dict[str, str]:
    """Return the loss of the actual next word."""
    target = pick("The word that actually came", parameters.TARGET, list(_WORDS))
    cost = float(logits.loss(book.values["scores"], _WORDS.index(target)))
    return {"target": target, "loss": equals(cost), "nats": f"{cost:.4f}"}


def lessons(book: Book) -> dict[str, Any]:
    """Return the sizes of the logits in training, and how many tokens have a target."""
    n = len(book.view.labels)
    return {
        "n": n,
        "n_vocab": book.view.trace.config.vocab_size,
        "several": n > 1,
        "lessons": pluralize(n - 1, "targets"),
    }


def predictions(book: Book) -> dict[str, Any]:
    """List the most probable token after each token, and the probability of the actual one.

    ``lost`` is true if the model's loss on the sentence is above that of a uniform guess.
    """
    trace, labels = book.view.trace, book.view.labels
    names = run_cache.vocabulary(book.view.model.name)
    rows: dict[str, list[str]] = {"after": [], "most probable": [], "what came": []}
    for n, text in enumerate(labels):
        chances = sampling_distribution(trace.logits_at(n))
        best = int(chances.argmax())
        rows["after"].append(f"{n} {text}")
        rows["most probable"].append(f"{names[best]}  ({percent(chances[best], 1)})")
        came = n + 1 < len(labels)
        chance = chances[trace.token_ids[n + 1]] if came else 0.0
        rows["what came"].append(f"{labels[n + 1]}  ({percent(chance, 1)})" if came else "")
    output.table(rows, "What the model predicts after each token", tallest=432)
    bits, nothing = surprise(trace)[1:], np.log(len(names))
    cost = bits.sum() * np.log(2) / max(1, len(bits))
    return {"lost": bool(cost > nothing), "cost": f"{cost:.2f}", "nothing": f"{nothing:.2f}"}
