"""Dropout on the weights of the four variants of attention."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course.parts import Book, code, pairs, picture
from gpt2viz.textbook import attention, heads, mlp

_CHANCES = [0.0, 0.1, 0.2, 0.5, 0.9]
#: Heads of the last form, and what decides the tables of all.
_NH, _SEED = 3, 0


def draw(book: Book) -> None:
    """The weights of the variants for E19's words, as softmax left them and after dropout.

    The head that is drawn of the last variant is its first.
    """
    st.subheader("Dropout on attention weights", anchor="dropped")
    prose.markdown(
        "Attention weights can be dropped too. Here are those of the four forms in *Many heads*:"
    )
    columns = st.columns(3, vertical_alignment="bottom")
    p: float = columns[0].selectbox(
        "Chance p", _CHANCES, **address.choice(parameters.WEIGHTS_P, _CHANCES)
    )
    seeds = range(10)
    which: int = columns[1].selectbox(
        "Seed of what is dropped", seeds, **address.choice(parameters.WEIGHTS_SEED, seeds)
    )
    training = columns[2].toggle("Training", **address.switch(parameters.WEIGHTS_ON))
    found = heads.drop_weights(attention.JOURNEY_X, _NH, _SEED, p, training, which)
    called = {name: name.replace("multi-head", "multi-head, head 0") for name in found}
    before, after = (
        [
            pairs(
                f"{called[name]}: {what}",
                numbers,
                attention.JOURNEY,
                "attention weight",
                one.hidden,
            )
            for name, one in found.items()
            for numbers in [one.weights if what == "weights" else one.dropped]
        ]
        for what in ("weights", "dropped")
    )
    picture(book, "variants_weights", before, "unit", height=250)
    picture(book, "variants_dropped", after, height=250)
    sums = [float(n) for one in found.values() for n in one.dropped.sum(dim=1)]
    prose.markdown(
        f"Before, each row sums to 1. Afterwards they sum to between **{min(sums):.2f}** and "
        f"**{max(sums):.2f}**. Later keys stay at 0: dropout comes after the mask."
    )
    code(heads.weights_of, mlp.drop, heads.drop_weights)
