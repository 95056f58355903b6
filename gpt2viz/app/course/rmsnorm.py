"""RMSNorm: a norm that leaves the mean alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.parts import SAME, Book, code, picture, vectors
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import enough, equals
from gpt2viz.arrays import Array
from gpt2viz.labels import signed
from gpt2viz.textbook import residual

_FOUR = ("0", "1", "2", "3")
_SHIFTS = [-10.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 10.0]


def draw(book: Book) -> list[Question]:
    """RMSNorm beside LayerNorm: what a shift of all numbers does to each."""
    prose.markdown(
        "LayerNorm does two things to a token's numbers. It moves their mean to 0, and it brings "
        "them to a standard size. **RMSNorm** does only the second: it divides by the root mean "
        "square. No mean is subtracted, and no shift β is added. That is less work, with half as "
        "many learned numbers (Zhang & Sennrich 2019, *Root Mean Square Layer Normalization*). "
        "Llama and many other models use it.\n\n"
        "Add the same number c to all of x, and the two part ways. LayerNorm takes c off again "
        "with the mean. RMSNorm lets it through. The gain γ is 1 here."
    )
    left, right = st.columns([2, 3], gap="large")
    with left:
        x = table(
            parameters.RMS_X, "x", np.add(residual.STREAM, residual.ADDED).round(6), ("x",), _FOUR
        )
        shift: float = st.select_slider(
            "c, added to all of x",
            _SHIFTS,
            format_func=lambda c: signed(c, "g"),
            **address.choice(parameters.RMS_SHIFT, _SHIFTS),
        )
    both, one, none = (x[0], x[0] + np.float32(shift)), np.ones(4), np.zeros(4)
    layer = [residual.layer_norm(row, one, none) for row in both]
    scaled = [residual.rms_norm(row, one) for row in both]
    with right:
        rows = ("Layer, x", "Layer, x + c", "RMS, x", "RMS, x + c")
        found = [*(part.output for part in layer), *(part.output for part in scaled)]
        panel = vectors("LayerNorm and RMSNorm", found, rows, _FOUR, ("", "channel"))
        picture(book, "rms_rows", [panel], height=250)
    st.latex(r"\text{RMS}(z) = \sqrt{\textstyle\frac{1}{C}\sum_i z_i^2 + \varepsilon}")
    for name, row, part in zip(("x", "x + c"), both, scaled, strict=True):
        n = enough(part.size, partial(np.divide, row.astype(float)), part.output)
        st.latex(
            rf"\text{{RMS}}({name}) {equals(part.size, n)} \qquad "
            rf"\frac{{{name}}}{{\text{{RMS}}({name})}} {equals(part.output)}"
        )
    moved = [float((two.output - first.output).abs().max()) for first, two in (layer, scaled)]
    prose.markdown(
        f"With c the numbers after LayerNorm move by up to **{moved[0]:.4f}**, after RMSNorm by up "
        f"to **{moved[1]:.4f}**."
    )
    code(residual.layer_norm, residual.rms_norm)
    return _rms_questions(x[0], float((layer[0].output - scaled[0].output).abs().max()))


def _rms_questions(x: Array, gap: float) -> list[Question]:
    """``gap`` is how far the two norms of x are apart."""
    same, centred = gap < SAME, bool(abs(x.mean()) <= 1e-4 * abs(x).max())
    told = "x is so small that ε decides. Take larger numbers." if same else ""
    if not x.any():
        told = "Not four zeros."
    return [
        Question(
            "rms_same",
            "Find an x, not all zeros, of which both norms make the **same** numbers. Now they "
            f"differ by up to {gap:.4f}.",
            "Which of its two steps would LayerNorm have to do for nothing?",
            "If the mean of x is 0, subtracting it changes nothing. What is left of LayerNorm is "
            "RMSNorm.",
            done=same and centred and bool(x.any()),
            told=told,
        ),
    ]
