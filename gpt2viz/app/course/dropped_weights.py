"""Dropout on the weights of the four variants of attention."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course.parts import Book, code, pairs, picture
from gpt2viz.arrays import Array
from gpt2viz.textbook import dropped_weights, mlp, steps

_CHANCES = [0.0, 0.1, 0.2, 0.5, 0.9]


def draw(book: Book, x: Array, nh: int, seed: int) -> None:
    """The weights for words x (T, 3) of the variants from a seed, as softmax left them and after.

    The head that is drawn of the last variant is its first.
    """
    st.subheader("Their weights, and dropout", anchor="dropped")
    prose.markdown(
        "What differs in the four is where they look. In training, some add **dropout**: each "
        "weight becomes 0 with chance p, and those that are left are multiplied by 1 / (1 − p). "
        "So no word can lean on a single other one. Once training is over, nothing is dropped."
    )
    columns = st.columns(3, vertical_alignment="bottom")
    p: float = columns[0].selectbox(
        "Chance p", _CHANCES, **address.choice(parameters.WEIGHTS_P, _CHANCES)
    )
    seeds = range(10)
    which: int = columns[1].selectbox(
        "What is dropped", seeds, **address.choice(parameters.WEIGHTS_SEED, seeds)
    )
    training = columns[2].toggle("Training", **address.switch(parameters.WEIGHTS_ON))
    found = dropped_weights.drop_weights(x, nh, seed, p, training, which)
    called = {name: name.replace("multi-head", "multi-head, head 0") for name in found}
    before, after = (
        [
            pairs(f"{called[name]}: {what}", numbers, steps.JOURNEY, "attention weight", one.hidden)
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
        f"**{max(sums):.2f}**. In the causal forms later keys stay at 0: dropout comes after the "
        "mask and softmax, and can't open what the mask has shut."
    )
    code(dropped_weights.weights_of, mlp.drop, dropped_weights.drop_weights)
