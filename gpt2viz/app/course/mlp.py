"""The MLP and its activation curve, applied to each token alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters
from gpt2viz.app.course.parts import (
    TOKENS,
    Book,
    code,
    curves,
    menu,
    pairs,
    pick,
    picture,
    vectors,
)
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import bracket, equals, latex
from gpt2viz.labels import numeral, percent
from gpt2viz.textbook import heads, mlp
from gpt2viz.textbook.attention import JOURNEY, JOURNEY_X
from gpt2viz.textbook.tensors import rows

_OUT = tuple(f"out {n}" for n in range(4))
_EIGHT = tuple(f"{n}" for n in range(8))
_AXES = ("x₁", "x₂", "x₃")
#: The chances that a number is dropped.
_CHANCES = [0.0, 0.1, 0.2, 0.5, 0.9]
#: Heads of the multi-head form whose weights are dropped, and the seed of all tables.
_NH, _SEED = 3, 0


def linear(book: Book) -> dict[str, Any]:
    """Draw a linear layer whose numbers can be edited."""
    columns = st.columns([2, 3, 2])
    x = Table(parameters.LIN_X, "x", mlp.LINEAR_X, ("x",), ("0", "1")).draw(columns[0])[0]
    weight = Table(parameters.LIN_W, "W", mlp.LINEAR_WEIGHT, _OUT, ("0", "1")).draw(columns[1])
    bias = Table(parameters.LIN_B, "b", mlp.LINEAR_BIAS, _OUT, ("b",)).draw(columns[2])[:, 0]
    result = mlp.linear(x, weight, bias)
    products = (
        rf"{bracket(latex(a))} \cdot {bracket(latex(w))}" for a, w in zip(x, weight[0], strict=True)
    )
    zero = bool(abs(np.asarray(result)).max() < 1e-3)
    unchanged = np.allclose(x, mlp.LINEAR_X) and np.allclose(weight, mlp.LINEAR_WEIGHT)
    note = "All four are 0, but x or W was changed too. Put them back."
    return {
        "products": " + ".join(products),
        "bias": bracket(latex(bias[0])),
        "first": equals(result[0]),
        "outputs": equals(result),
        "linear_zero": Check(zero and unchanged, note if zero else ""),
    }


def walk(book: Book) -> None:
    """Draw a token passing through an MLP."""
    left, right = st.columns([3, 5], gap="medium")
    with left:
        x = Table(parameters.WALK_X, "x", (mlp.LINEAR_X,), ("x",), ("0", "1")).draw()[0]
        seed = menu("Seed", parameters.WALK_SEED, range(10))
    with right:
        curve = pick("Curve", parameters.CURVE, list(mlp.CURVES))
        widen, back = mlp.random_weights(seed)
        widened, bent, y = mlp.walk(x, widen, np.ones(8), back, curve)
        panel = vectors("inside", [widened, bent], ("widened", curve), _EIGHT, ("", "channel"))
        picture("walk", [panel], height=190)
    st.latex(rf"{latex(x)} \;\rightarrow\; 8 \text{{ channels}} \;\rightarrow\; y {equals(y)}")
    code(mlp.random_weights, mlp.walk, mlp.CURVES[curve])


def four_curves(book: Book) -> dict[str, Check]:
    """Draw the activation curves, and list their values at some x."""
    xs = np.linspace(-4, 4, 161, dtype=np.float32)
    drawn = {name: np.asarray(f(rows(xs))) for name, f in mlp.CURVES.items()}
    curves("curves", "Four activation curves, f(x) over x", xs, drawn, ("x", "f(x)"))
    at = Table(parameters.CURVE_X, "At these x", (mlp.TABLE,), ("x",), tuple("abcde")).draw()[0]
    values = {name: np.asarray(f(rows(at))) for name, f in mlp.CURVES.items()}
    formats = dict.fromkeys(values, "%.4f")
    output.table({"x": at} | values, "Four curves at some x", formats=formats, of_run=False)
    code(*mlp.CURVES.values())
    lowest = values["GELU (erf)"].min()
    note = f"The lowest in the table is {numeral(lowest, '.4f')}."
    return {"curve_lowest": Check(bool(lowest < -0.169), note)}


def blocks(book: Book, text: str) -> dict[str, str]:
    """Run six words through three blocks with equally many parameters."""
    left, right = st.columns([3, 1], gap="medium")
    x = Table(parameters.BLOCKS_X, "Six words", JOURNEY_X, JOURNEY, _AXES).draw(left)
    runs = mlp.run_blocks(x, menu("Seed", parameters.BLOCKS_SEED, range(10), right))
    (n,) = {ran.n_parameters for ran in runs.values()}
    book.write(text, n=n)
    panels = [vectors(name, ran.output, JOURNEY, _AXES, TOKENS) for name, ran in runs.items()]
    picture("blocks", panels, height=270)
    shut = {name: percent(float((ran.inside == 0).float().mean())) for name, ran in runs.items()}
    output.table(
        {
            "block": list(runs),
            "channels inside": [ran.inside.shape[1] for ran in runs.values()],
            "exactly 0 inside": list(shut.values()),
            "smallest inside": [float(ran.inside.min()) for ran in runs.values()],
            "largest inside": [float(ran.inside.max()) for ran in runs.values()],
        },
        "Inside three blocks",
        of_run=False,
        formats={"smallest inside": "%.4f", "largest inside": "%.4f"},
    )
    return shut


def dropout(book: Book) -> dict[str, Check]:
    """Draw eight numbers, before and after dropout."""
    columns = st.columns(3)
    p = menu("p, the chance to be dropped", parameters.DROP_P, _CHANCES, columns[0])
    seed = menu("Seed", parameters.DROP_SEED, range(20), columns[1])
    with columns[2]:
        training = st.toggle("Training", **address.switch(parameters.DROP_ON))
    after = mlp.drop(mlp.WIDENED, p, training, seed)
    both = [rows(mlp.WIDENED), after]
    panel = vectors("eight numbers", both, ("before", "after"), _EIGHT, ("", "number"))
    picture("drop", [panel], height=180)
    note = "With p = 0 training changes nothing either, but the question is about the switch."
    unchanged = bool(np.allclose(after, mlp.WIDENED))
    return {"drop_reading": Check(not training and unchanged, "" if p else note)}


def dropped_weights(book: Book) -> dict[str, str]:
    """Draw the variants' weights for E19's words, before and after dropout.

    Of the multi-head variant, head 0 is drawn.
    """
    columns = st.columns(3, vertical_alignment="bottom")
    p = menu("p, the chance to be dropped", parameters.WEIGHTS_P, _CHANCES, columns[0])
    which = menu("Dropout seed", parameters.WEIGHTS_SEED, range(10), columns[1])
    training = columns[2].toggle("Training", **address.switch(parameters.WEIGHTS_ON))
    forms = heads.drop_weights(JOURNEY_X, _NH, _SEED, p, training, which)
    before, after = (
        [
            pairs(
                f"{name.replace('multi-head', 'multi-head, head 0')}: {what}",
                getattr(form, what),
                JOURNEY,
                "attention weight",
                form.hidden,
            )
            for name, form in forms.items()
        ]
        for what in ("weights", "dropped")
    )
    picture("variants_weights", before, "unit", height=250)
    picture("variants_dropped", after, height=250)
    sums = [float(n) for form in forms.values() for n in form.dropped.sum(dim=1)]
    return {"least": f"{min(sums):.2f}", "most": f"{max(sums):.2f}"}
