"""SwiGLU: an MLP with a gate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.parts import PLANE, SAME, Book, code, picture, vectors
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import enough, equals
from gpt2viz.labels import signed
from gpt2viz.textbook import mlp


def draw(book: Book) -> Iterator[Question]:
    """SwiGLU: one token through a gate, and how many parameters that takes."""
    prose.markdown(
        "GPT-2's MLP makes a vector longer, bends it by a curve, and makes it short again. Many "
        "later models have a **gate** there. One table, *up*, makes numbers. Another, *gate*, says "
        "through SiLU how much of each may pass: the two are multiplied, channel by channel. A "
        "third, *down*, leads back. This is **SwiGLU** (Shazeer 2020, *GLU Variants Improve "
        "Transformer*).\n\n"
        "So each token opens channels of its own. Set x₁ to −1, and channel 1 opens in place of "
        "channel 0."
    )
    first, second = st.columns(2, gap="large"), st.columns(2, gap="large")
    three = ("0", "1", "2")
    with first[0]:
        x = table(parameters.GATE_X, "x", (mlp.GATED_X,), ("x",), PLANE)[0]
    with first[1]:
        down = table(parameters.GATE_DOWN, "Down", mlp.DOWN, ("y₁", "y₂"), three)
    with second[0]:
        gate = table(parameters.GATE_W, "Gate", mlp.GATE, three, PLANE)
    with second[1]:
        up = table(parameters.GATE_UP, "Up", mlp.UP, three, PLANE)
    found = mlp.gated(x, gate, up, down)
    names = ("gate", "SiLU(gate)", "up", "passes")
    panel = vectors("inside", list(found[:4]), names, three, ("", "channel"))
    picture(book, "gate_inside", [panel], height=250)
    passed = np.asarray(found.passed, float)
    n = enough(passed, lambda p: down.astype(float) @ p, found.output)
    opened, made = np.asarray(found.opened, float), np.asarray(found.up, float)
    m = enough(opened, lambda o: o * made.round(n), passed, n)
    st.latex(rf"\text{{SiLU(gate)}} {equals(opened, m)} \qquad \text{{up}} {equals(made, m)}")
    st.latex(rf"\text{{passes}} = \text{{SiLU(gate)}} \cdot \text{{up}} {equals(passed, n)}")
    st.latex(rf"y = \text{{down}} \cdot \text{{passes}} {equals(found.output)}")
    code(mlp.silu, mlp.gated)
    kept = [np.allclose(a, b) for a, b in ((x, mlp.GATED_X), (up, mlp.UP))]
    yield from _gate_questions(float(passed[1]), all(kept))
    _gate_sizes()


def _gate_sizes() -> None:
    prose.markdown(
        "Three tables would be half as many parameters again as two. So each is made narrower: 8 C "
        "/ 3 channels in place of 4 C, rounded up to a multiple of 256. Then both forms are about "
        "the same size."
    )
    sizes = [768, 1024, 4096]
    C: int = st.segmented_control(
        "Channels C", sizes, required=True, **address.choice(parameters.GATE_C, sizes)
    )
    output.table(
        mlp.forms(C),
        "The MLP in both forms, by its channels",
        hide_index=True,
        column_config={"parameters": st.column_config.NumberColumn(format="localized")},
    )
    code(mlp.forms, mlp.swiglu_width, mlp.FeedForward, mlp.SwiGLU)


def _gate_questions(passed: float, kept: bool) -> list[Question]:
    """``passed`` is what channel 1 lets through, ``kept`` whether x and up are as they were."""
    shut = abs(passed) < SAME
    return [
        Question(
            "gate_shut",
            "Shut channel 1: edit **Gate** alone so that nothing passes there. Now it is "
            f"{signed(passed, '.4f')}.",
            "For which number is SiLU 0? Let row 1 of the table make that number of x.",
            "SiLU(0) = 0, so nothing passes, however large *up* is. Far below 0 it is shut too.",
            done=shut and kept,
            told="It is shut, but x or Up was changed too. Put them back." if shut else "",
        ),
    ]
