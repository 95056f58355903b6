"""RNNs: what read texts before attention did, and why attention took their place."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.parts import PLANE, TOKENS, Book, code, picture, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.labels import power_of_ten
from gpt2viz.pictures.training import curves_at
from gpt2viz.textbook import attention, rnn

_LENGTHS = [8, 16, 32, 64]


def draw(book: Book) -> list[Question]:
    """One word after the other against all at once, and how far a gradient gets in each."""
    prose.markdown(
        "Before attention, texts were read by **RNNs**, recurrent neural networks (Elman 1990, "
        "*Finding Structure in Time*). An RNN goes from word to word and keeps a **state**, one "
        "vector. Each new state is made of the word x and the state before, h:"
    )
    st.latex(r"h_t = \tanh(W_x\, x_t + W_h\, h_{t-1}) \qquad h_0 = 0")
    prose.caption("t counts the words from 1. The curve tanh keeps each number between −1 and 1.")
    left, right = st.columns([2, 3], gap="large")
    with left:
        x = table(
            parameters.RNN_X, "x: four words", attention.SENTENCE_X, attention.SENTENCE, PLANE
        )
    states = rnn.read(x, rnn.W_X, rnn.W_H)
    with right:
        panel = vectors("state after each word", states, attention.SENTENCE, ("h₁", "h₂"), TOKENS)
        picture(book, "rnn_states", [panel], height=240)
    code(rnn.read)
    prose.markdown(
        "**One after the other.** A state can't be worked out before the last one is there. A text "
        "of T words takes T steps, however many processors wait. In attention no row needs another "
        "row: all T² scores of a head come from **one** multiplication. That is what made it fit "
        "for training on so much text.\n\n"
        "**How far back.** In an RNN what the first word said has to pass through every state on "
        "the way. So has the gradient on its way back. In networks like those below each step "
        "shrinks it. In attention the last word looks at the first one directly.\n\n"
        "Here is how much the last vector depends on each word of a text, in random networks of "
        "both kinds:"
    )
    _reach(book)
    return [
        Question(
            "rnn_between",
            "In a text of 100 words, how many times is the first word's state multiplied by $W_h$ "
            "before it is part of the last one?",
            "Once for each step from the first state to the last.",
            "99 times. If half of it is left each time, 10⁻³⁰ arrives.",
            answer="99",
        ),
    ]


def _reach(book: Book) -> None:
    """The last vector's dependence on each word, in an RNN and with attention."""
    T: int = st.segmented_control(
        "Words T", _LENGTHS, required=True, **address.choice(parameters.RNN_T, _LENGTHS)
    )
    by_network = rnn.reach(T)
    back = range(T - 1, -1, -1)
    output.picture(
        curves_at(
            "Gradient of the last vector by each word, as powers of ten",
            back,
            {name: np.log10(np.maximum(sizes, 1e-30)) for name, sizes in by_network.items()},
            "words back from the last",
            "log₁₀ of the size of the gradient",
        ),
        book.colors,
        key="rnn_reach",
        of_run=False,
    )
    shares = {name: sizes[0] / sizes[-1] for name, sizes in by_network.items()}
    prose.markdown(
        f"The first word's gradient is **{power_of_ten(shares['RNN'])}** times the last one's in "
        f"the RNN, and **{shares['attention']:.2g}** times with attention. Networks with gates, "
        "such as the LSTM (Hochreiter & Schmidhuber 1997, *Long Short-Term Memory*), were made to "
        "help against that, but they read one word after the other too.\n\n"
        "Attention pays for it: it has T² scores, and when it writes, it must keep all earlier "
        "words at hand. An RNN keeps one state, however long the text."
    )
    prose.caption(f"16 channels, untrained; means of {rnn.DRAWS} random networks and texts.")
    code(rnn.read, rnn.by_rnn, rnn.by_attention, rnn.reach)
