"""Attention sinks: where a head rests that finds nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import streamlit as st

from gpt2viz.analysis.scores import first_token, weight_on
from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.kv_cache import to_generate
from gpt2viz.app.course.parts import PLANE, Book, code, picture, vectors
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import enough, equals
from gpt2viz.app.frame import end_of_text
from gpt2viz.app.views import find
from gpt2viz.arrays import Array
from gpt2viz.labels import counted
from gpt2viz.pictures.find import head_map
from gpt2viz.textbook import after_gpt2, attention


def draw(book: Book) -> Iterator[Question]:
    """Where a head rests, in a small case and in the model above."""
    prose.markdown(
        "Softmax can't say nothing. The weights of a row sum to 1, even where no token has what a "
        "head looks for. Nor does it help to lower all scores: only their differences count. So a "
        "head learns to rest on a token that does little harm, mostly the first, which all others "
        "can see. That is an **attention sink** (Xiao et al. 2023, *Efficient Streaming Language "
        "Models with Attention Sinks*).\n\n"
        "Here “fish” looks back. “A” has a high score and a value of almost nothing, so resting "
        "there adds almost nothing.\n\n"
        "Now drop the first token, as a cache that keeps only the newest ones does. Its weight "
        "falls to the others, wanted or not. The paper found that models break down then, and that "
        "keeping the first four tokens mends it."
    )
    labels = attention.SENTENCE
    left, right = st.columns([2, 3], gap="large")
    with left:
        scores = table(
            parameters.SINK_SCORES, "Scores of fish", after_gpt2.SINK_SCORES, ("fish",), labels
        )[0]
        values = table(parameters.SINK_VALUES, "Values", after_gpt2.SINK_VALUES, labels, PLANE)
        forget = st.toggle("Drop the first token", **address.switch(parameters.SINK_DROP))
    found = after_gpt2.look_back(scores, values, forget)
    with right:
        panel = vectors("weights of fish", found.weights, ("fish",), labels, ("query", "key"))
        picture(book, "sink_weights", [panel], "unit", height=170)
    weights = np.asarray(found.weights, float)
    n = enough(weights, lambda w: w @ values.astype(float), found.output)
    st.latex(rf"\text{{softmax}} {equals(weights, n)}")
    st.latex(rf"\text{{weights}} \cdot V {equals(found.output)}")
    prose.markdown(f"The vector that fish takes away has length **{found.length:.2f}**.")
    code(after_gpt2.look_back)
    yield from _sink_questions(scores, values, weights, forget)
    to_generate("What dropping tokens costs the model, on Generate")
    _real_sinks(book)


def _real_sinks(book: Book) -> None:
    """How much weight each head of the model gives to the sentence's first token."""
    view = book.view
    trace, n = view.trace, len(view.labels)
    st.subheader("Heads of the model above", anchor="real-sinks")
    prose.markdown(
        f"The token {end_of_text.WRITTEN} stands between two texts. The switch above puts it "
        "before your sentence, so that heads can rest on it in place of your first word."
    )
    if n == 1:
        prose.markdown("A single token can look nowhere else. Write a longer sentence.")
        return
    targets = first_token(trace.token_ids)
    layers = range(trace.config.n_layer)
    found = np.stack([weight_on(trace.stage("weights", layer)[0], targets) for layer in layers])
    drawn = head_map(found, "mean weight on the first token")
    picture(book, "sink_heads", [drawn], "unit", height=260)
    code(first_token, weight_on)
    layer, head = np.unravel_index(np.nan_to_num(found).argmax(), found.shape)
    even = _even(n, trace.causal)
    prose.markdown(
        f"In your sentence head {layer}.{head} rests there most: the {counted(n - 1, 'tokens')} "
        f"after the first give it **{found[layer, head]:.2f}** of their weight, on average. If a "
        f"head looked at all tokens alike, it would be {even:.2f}. In a short text a large share "
        "means little: there is not much else to look at."
    )
    across = find.survey(view)
    if across is not None and "first token" in across.mean:
        mean = across.mean["first token"]
        layer, head = np.unravel_index(np.nan_to_num(mean).argmax(), mean.shape)
        prose.markdown(
            f"Over {counted(across.n_passages, 'passages')} of up to {across.n_tokens} tokens, the "
            f"most is **{mean[layer, head]:.2f}**, in head {layer}.{head}. In a passage of "
            f"{across.n_tokens} tokens, all alike would be {_even(across.n_tokens, True):.2f}."
        )


def _even(n: int, causal: bool) -> float:
    """The first token's share of n tokens' weights where all that may be seen get the same."""
    return float(np.mean([1 / (query + 1 if causal else n) for query in range(1, n)]))


def _sink_questions(scores: Array, values: Array, weights: Array, forget: bool) -> list[Question]:
    rests = bool(weights[0] > 0.9)
    kept = scores[0] == np.float32(after_gpt2.SINK_SCORES[0]) and np.allclose(
        values, after_gpt2.SINK_VALUES
    )
    told = ""
    if forget:
        told = "The first token is dropped. Switch that off."
    elif rests:
        told = "It rests there, but the score of “A” or a value was changed. Put that back."
    return [
        Question(
            "sink_rest",
            "Let this head find nothing: leave the score of “A” and all values alone, and make "
            f"“fish” give “A” **more than 0.9**. Now it is {weights[0]:.2f}.",
            "Softmax compares. What must happen to the other three scores?",
            "No score of “A” went up. It takes what the others don't get, since all must sum to 1.",
            done=rests and bool(kept) and not forget,
            told=told,
        ),
    ]
