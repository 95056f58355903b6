"""RNNs, which read texts before attention did, and why attention replaced them."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gpt2viz.app import parameters
from gpt2viz.app.course.parts import PLANE, TOKENS, Book, curves, pick, picture, vectors
from gpt2viz.app.course.tables import Table
from gpt2viz.labels import power_of_ten
from gpt2viz.textbook import attention, rnn


def states(book: Book) -> None:
    """Draw the state after each of four words."""
    left, right = st.columns([2, 3], gap="large")
    x = Table(
        parameters.RNN_X, "x: four words", attention.SENTENCE_X, attention.SENTENCE, PLANE
    ).draw(left)
    states = rnn.run_rnn(x, rnn.W_X, rnn.W_H)
    panel = vectors("state after each word", states, attention.SENTENCE, ("h₁", "h₂"), TOKENS)
    picture("rnn_states", [panel], height=240, slot=right)


def reach(book: Book) -> dict[str, str]:
    """Draw the last vector's dependence on each word, in an RNN and with attention."""
    T = pick("Words T", parameters.RNN_T, [8, 16, 32, 64])
    by_network = rnn.reach(T)
    curves(
        "rnn_reach",
        "Gradient of the last vector by each word, as powers of ten",
        range(T - 1, -1, -1),
        {name: np.log10(np.maximum(sizes, 1e-30)) for name, sizes in by_network.items()},
        ("words back from the last", "log₁₀ of the size of the gradient"),
    )
    shares = {name: sizes[0] / sizes[-1] for name, sizes in by_network.items()}
    return {
        "by_rnn": power_of_ten(shares["RNN"]),
        "by_attention": f"{shares['attention']:.2g}",
        "draws": str(rnn.DRAWS),
    }
