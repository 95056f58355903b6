"""From the last vector to the next word."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import streamlit as st

from gpt2viz import Trace, sampling_distribution
from gpt2viz.analysis.sampling import softmax
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.course import guess
from gpt2viz.app.course.parts import PLANE, Book, code, heading, picture, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import enough, equals
from gpt2viz.arrays import Array
from gpt2viz.labels import pluralize
from gpt2viz.textbook import logits

_WORDS = logits.FOUR


def draw(book: Book) -> Iterator[Question]:
    """E14, on four words and on the model above."""
    prose.markdown(
        "At the end, each token's vector holds what the layers have gathered and worked out. It is "
        "compared with **every row of the token table**, to find the word that comes next. The dot "
        "product with a row is that token's **logit**. Softmax turns the logits into "
        "probabilities."
        "\n\nGPT-2 uses the same table at both ends: *weight tying* (Press & Wolf 2017)."
    )
    left, right = st.columns([3, 5], gap="large")
    temperatures = [0.1, 0.5, 1.0, 2.0, 10.0]
    with left:
        x = table(parameters.LAST_X, "Last vector", logits.LAST, ("last",), PLANE)
        rows = table(parameters.LAST_ROWS, "A vocabulary of four", logits.EMBEDDING, _WORDS, PLANE)
        heat: float = st.selectbox(
            "Temperature t",
            help=prose.tip(
                "Divides the logits: below 1 the likely become likelier, above 1 less so."
            ),
            **address.choice(parameters.HEAT, temperatures),
        )
    same_table = bool(np.allclose(rows, logits.EMBEDDING))
    scores = logits.logits(x, rows)[0]
    chances = logits.next_token(scores, heat)
    with right:
        names = ("", "next word")
        picture(book, "logits", [vectors("logits z", scores, ("z",), _WORDS, names)], height=170)
        at_first = same_table and heat == 1 and bool(np.allclose(x, logits.LAST))
        if seen := guess.shown("next", at_first):
            panel = vectors("probabilities p", chances, ("p",), _WORDS, names)
            picture(book, "chances", [panel], "unit", height=170)
    st.latex(
        r"p_i = \frac{e^{z_i / t}}{\sum_j e^{z_j / t}} \qquad \text{loss} = -\ln p_{\text{next}}"
    )
    z = np.asarray(scores, float)
    digits = enough(z, lambda z: softmax(z / heat), chances)
    st.latex(rf"z {equals(scores, digits)}")
    if seen:
        st.latex(rf"p = \text{{softmax}}(z / {heat:g}) {equals(chances)}")
    prose.caption(
        "z are the logits, p the probabilities, i and j stand for words. All logits are divided by "
        "the temperature t. ln is the natural logarithm, which undoes $e^x$: the likelier the word "
        "that came, the smaller the loss."
    )
    _loss(np.asarray(scores))
    code(logits.logits, logits.next_token, logits.loss)
    yield from _questions(np.asarray(scores), np.asarray(chances), heat, same_table)
    _real(book)


def _loss(scores: Array) -> None:
    target: str = st.segmented_control(
        "The word that actually came",
        required=True,
        **address.choice(parameters.TARGET, list(_WORDS)),
    )
    cost = float(logits.loss(scores, _WORDS.index(target)))
    at_one = f"z_{{\\text{{{target}}}}}"
    st.latex(rf"t = 1: \quad \text{{loss}} = \ln \sum_j e^{{z_j}} - {at_one} {equals(cost)}")
    prose.markdown(
        f"Loss: **{cost:.4f} nats**. That is −ln p at t = 1, written in terms of z; nats are the "
        "unit that ln gives. Training nudges all parameters, again and again, so that the words "
        "that actually came cost less."
    )


def _real(book: Book) -> None:
    view = book.view
    n_vocab = view.trace.config.vocab_size
    heading("E14")
    n = len(view.labels)
    lessons = ", so a single token teaches nothing"
    if n > 1:
        lessons = f": {pluralize(n - 1, 'lessons')} from one text"
    prose.markdown(
        f"**In training** the model predicts at every position at once: (1, {n}, {n_vocab}) logits "
        f"for your sentence. The answer is known at each but the last{lessons}. "
        f"**When writing** only the last position counts: (1, 1, {n_vocab})."
        "\n\nBelow is what this model predicts after each token, and how likely it found the one "
        "that came."
    )
    output.table(
        _predicted(book),
        "What the model predicts after each token",
        height=36 * min(n + 1, 12),
    )
    code(Trace.logits_at, sampling_distribution)


def _questions(scores: Array, chances: Array, heat: float, same_table: bool) -> list[Question]:
    steel, even = int(scores.argmax()) == 1, bool(chances.max() < 0.3 and chances.min() > 0.2)
    return [
        Question(
            "next_steel",
            "Turn the **last vector** until “steel” is the most probable, without touching the "
            "table.",
            "It must point the same way as the row of steel.",
            "The last vector is the model's whole answer: it points at the words to come.",
            done=steel and same_table,
            note="“steel” leads, but the table was changed too. Put it back." if steel else "",
        ),
        Question(
            "next_even",
            "Choose a temperature at which all four words are nearly equally probable: each "
            "between 0.2 and 0.3.",
            "Logits are divided by it. Which temperatures bring them closer together?",
            "The temperature divides the differences between logits, until little is left of them.",
            done=even and heat > 1,
            note="They are, but because of their logits. Let the temperature do it."
            if even
            else "",
        ),
        Question(
            "next_loss",
            "A model that knows nothing gives each of 4 words the same chance. What is its loss in "
            "nats, to two decimals?",
            "The loss is −ln p. What is p here?",
            "ln 4 = 1.39. With GPT-2's 50,257 tokens it is 10.82.",
            answer="1.39",
        ),
    ]


def _predicted(book: Book) -> dict[str, list[str]]:
    """After each token: the most probable next one, and how probable the one that came was."""
    trace, labels, names = (
        book.view.trace,
        book.view.labels,
        run_cache.vocabulary(book.view.model.name),
    )
    rows: dict[str, list[str]] = {"after": [], "most probable": [], "what came": []}
    for n, text in enumerate(labels):
        chances = sampling_distribution(trace.logits_at(n))
        best = int(chances.argmax())
        rows["after"].append(f"{n} {text}")
        rows["most probable"].append(f"{names[best]}  ({chances[best]:.1%})")
        came = n + 1 < len(labels)
        chance = chances[trace.token_ids[n + 1]] if came else 0.0
        rows["what came"].append(f"{labels[n + 1]}  ({chance:.1%})" if came else "")
    return rows
