"""The MLP and its curve: each token works alone on what it has gathered."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.parts import TOKENS, Book, code, heading, pairs, picture, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import bracketed, equals, given
from gpt2viz.arrays import Array
from gpt2viz.labels import signed
from gpt2viz.pictures.training import curves_at
from gpt2viz.textbook import attention, heads, mlp
from gpt2viz.textbook.tensors import rows

_OUT = tuple(f"out {n}" for n in range(4))
_EIGHT = tuple(f"{n}" for n in range(8))


def draw(book: Book) -> Iterator[Question]:
    """E9, E10, E15 and E13."""
    prose.markdown(
        "Attention moves information between tokens. Then each token works on what it has, "
        "**alone**: its vector is made four times as long, bent by a curve, and made short again. "
        "That is the **MLP**, short for multi-layer perceptron."
        "\n\nWithout the curve the two steps would amount to a single multiplication."
    )
    yield from _linear()
    _walk(book)
    yield from _curves(book)
    yield from _dropout(book)


def _linear() -> Iterator[Question]:
    heading("E9")
    prose.markdown(
        "For each output, a linear layer multiplies the input x by a row of the table W, number by "
        "number. It adds up the products, and adds a bias, a number of b. `nn.Linear` keeps W as "
        "(outputs, inputs)."
    )
    columns = st.columns([2, 3, 2])
    with columns[0]:
        x = table(parameters.LIN_X, "x", mlp.LINEAR_X, ("x",), ("0", "1"))[0]
    with columns[1]:
        weight = table(parameters.LIN_W, "W", mlp.LINEAR_WEIGHT, _OUT, ("0", "1"))
    with columns[2]:
        bias = table(parameters.LIN_B, "b", np.reshape(mlp.LINEAR_BIAS, (4, 1)), _OUT, ("b",))[:, 0]
    result = mlp.linear(x, weight, bias)
    first = " + ".join(
        rf"{bracketed(given(a))} \cdot {bracketed(given(w))}"
        for a, w in zip(x, weight[0], strict=True)
    )
    st.latex(rf"\text{{out}}_0 = {first} + {bracketed(given(bias[0]))} {equals(result[0])}")
    st.latex(rf"W x + b {equals(result)}")
    code(mlp.linear)
    zero = bool(abs(np.asarray(result)).max() < 1e-3)
    unchanged = np.allclose(x, mlp.LINEAR_X) and np.allclose(weight, mlp.LINEAR_WEIGHT)
    yield from [
        Question(
            "linear_zero",
            "Make all four outputs 0 by editing **b** alone.",
            "b comes last. What must it be, so that W x is cancelled?",
            "b = −W x. A bias shifts its output by a fixed amount, whatever the input.",
            done=zero and unchanged,
            note="All four are 0, but x or W was changed too. Put them back." if zero else "",
        ),
    ]


def _walk(book: Book) -> None:
    heading("E10")
    prose.markdown(
        "One token of two numbers, x, is widened to eight, bent by a curve, and brought back to "
        "two, y."
        "\n\nThe tables hold **standard normal** numbers times 2, drawn from a seed; biases are 1. "
        "(Standard normal numbers scatter round 0 like a bell, with variance 1.)"
    )
    left, right = st.columns([3, 5], gap="medium")
    with left:
        x = table(parameters.WALK_X, "x", (mlp.LINEAR_X,), ("x",), ("0", "1"))[0]
        seeds = range(10)
        seed: int = st.selectbox("Seed", seeds, **address.choice(parameters.WALK_SEED, seeds))
    names = list(mlp.CURVES)
    with right:
        curve: str = st.segmented_control(
            "Curve", names, required=True, **address.choice(parameters.CURVE, names)
        )
        widen, back = mlp.drawn_weights(seed)
        widened, bent, output = mlp.walk(x, widen, np.ones(8), back, curve)
        panel = vectors("inside", [widened, bent], ("widened", curve), _EIGHT, ("", "channel"))
        picture(book, "walk", [panel], height=190)
    st.latex(rf"{given(x)} \;\rightarrow\; 8 \text{{ channels}} \;\rightarrow\; y {equals(output)}")
    code(mlp.drawn_weights, mlp.walk, mlp.CURVES[curve])


def _curves(book: Book) -> Iterator[Question]:
    heading("E15")
    prose.markdown(
        "**ReLU** cuts off what is negative. **GELU** does it gently: it multiplies x by the "
        "chance that a standard normal number lies below x. **SiLU** multiplies x by its sigmoid, "
        "$1 / (1 + e^{-x})$, which rises from 0 to 1."
        "\n\nGELU's chance can be worked out with a function named erf. GPT-2 approximates it with "
        "another, tanh; the two GELUs differ by less than 0.0005."
    )
    xs = np.linspace(-4, 4, 161, dtype=np.float32)
    drawn = {name: np.asarray(f(rows(xs))) for name, f in mlp.CURVES.items()}
    output.picture(
        curves_at("Four activation curves, f(x) over x", xs, drawn, "x", "f(x)"),
        book.colors,
        key="curves",
        of_run=False,
    )
    at = table(parameters.CURVE_X, "At these x", (mlp.TABLE,), ("x",), tuple("abcde"))[0]
    values = {name: np.asarray(f(rows(at))) for name, f in mlp.CURVES.items()}
    number = st.column_config.NumberColumn(format="%.4f")
    output.table(
        {"x": at} | values,
        "Four curves at some x",
        column_config=dict.fromkeys(values, number),
    )
    code(*mlp.CURVES.values())
    yield from _curve_questions(values["GELU (erf)"])
    draw_blocks(book)


def _curve_questions(gelu: Array) -> list[Question]:
    """``gelu`` is the curve at the x of the table."""
    return [
        Question(
            "curve_lowest",
            "GELU dips below 0. Enter an x in the table at which it is **lower than −0.169**.",
            "Find the dip in the picture, then go through it in small steps.",
            "The lowest point is near x = −0.75, with −0.170. ReLU has no such dip: left of 0 it "
            "is flat, and there it learns nothing.",
            done=bool((gelu < -0.169).any()),
            note=f"The lowest in the table is {signed(gelu.min(), '.4f')}.",
        ),
    ]


def _dropout(book: Book) -> Iterator[Question]:
    heading("E13")
    prose.markdown(
        "In training, each number is set to 0 with probability p, afresh each time. The others are "
        "multiplied by $1 / (1 - p)$, so that on average the mean stays the same. So no part can "
        "rely on another being there. Once training is over, dropout does nothing."
    )
    columns = st.columns(3)
    chances = [0.0, 0.1, 0.2, 0.5, 0.9]
    p: float = columns[0].selectbox("p", chances, **address.choice(parameters.DROP_P, chances))
    seeds = range(20)
    seed: int = columns[1].selectbox("Seed", seeds, **address.choice(parameters.DROP_SEED, seeds))
    with columns[2]:
        training = st.toggle("Training", **address.switch(parameters.DROP_ON))
    after = mlp.drop(mlp.WIDENED, p, training, seed)
    both, names = [rows(mlp.WIDENED), after], ("", "number")
    panel = vectors("eight numbers", both, ("before", "after"), _EIGHT, names)
    picture(book, "drop", [panel], height=180)
    code(mlp.drop)
    yield from [
        Question(
            "drop_factor",
            "With p = 0.5, what is a surviving number multiplied by?",
            "The mean should stay the same. What is left of it when half of the numbers are gone?",
            "On average half of the numbers are gone, so those that are left count double.",
            answer="2",
            also=("twice", "double", "doubled"),
        ),
        Question(
            "drop_reading",
            "Switch dropout off, as it is once a model is trained.",
            "When is dropout needed, and when not?",
            "All numbers pass unchanged, whatever p is. `model.eval()` does this.",
            done=not training and bool(np.allclose(after, mlp.WIDENED)),
            note="With p = 0 training changes nothing either, but the question is about the switch."
            if p == 0
            else "",
        ),
    ]
    draw_dropped_weights(book)


_AXES = ("x₁", "x₂", "x₃")


def draw_blocks(book: Book) -> None:
    """Six words through three blocks of equally many parameters."""
    st.subheader("Three blocks, one input", anchor="blocks")
    left, right = st.columns([3, 1], gap="medium")
    with left:
        x = table(parameters.BLOCKS_X, "Six words", attention.JOURNEY_X, attention.JOURNEY, _AXES)
    seeds = range(10)
    seed: int = right.selectbox("Seed", seeds, **address.choice(parameters.BLOCKS_SEED, seeds))
    runs = mlp.run_blocks(x, seed)
    n = {ran.n_parameters for ran in runs.values()}
    prose.markdown(
        "Three MLPs read the same six words. The first two differ only in their curve. The third, "
        "**SwiGLU**, has a gate, as a later chapter explains. Without biases each has "
        f"**{n.pop()} parameters**, drawn from a seed."
    )
    panels = [
        vectors(name, ran.output, attention.JOURNEY, _AXES, TOKENS) for name, ran in runs.items()
    ]
    picture(book, "blocks", panels, height=270)
    zero = {name: float((ran.inside == 0).float().mean()) for name, ran in runs.items()}
    output.table(
        {
            "block": list(runs),
            "channels inside": [ran.inside.shape[1] for ran in runs.values()],
            "exactly 0 inside": [f"{share:.0%}" for share in zero.values()],
            "smallest inside": [float(ran.inside.min()) for ran in runs.values()],
            "largest inside": [float(ran.inside.max()) for ran in runs.values()],
        },
        "Inside three blocks",
        column_config={
            f"{end} inside": st.column_config.NumberColumn(format="%.4f")
            for end in ("smallest", "largest")
        },
    )
    prose.markdown(
        f"ReLU has shut **{zero['ReLU']:.0%}** of the channels; GELU "
        f"{zero['GELU']:.0%}, and the gate {zero['SwiGLU']:.0%}. A channel that ReLU has shut "
        "passes no gradient, so it learns nothing from that word."
    )
    code(mlp.three_blocks, mlp.inside_block, mlp.run_blocks)


_CHANCES = [0.0, 0.1, 0.2, 0.5, 0.9]
#: Heads of the last form, and what decides the tables of all.
_NH, _SEED = 3, 0


def draw_dropped_weights(book: Book) -> None:
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
    forms = heads.drop_weights(attention.JOURNEY_X, _NH, _SEED, p, training, which)
    called = {name: name.replace("multi-head", "multi-head, head 0") for name in forms}
    before, after = (
        [
            pairs(
                f"{called[name]}: {what}",
                numbers,
                attention.JOURNEY,
                "attention weight",
                form.hidden,
            )
            for name, form in forms.items()
            for numbers in [form.weights if what == "weights" else form.dropped]
        ]
        for what in ("weights", "dropped")
    )
    picture(book, "variants_weights", before, "unit", height=250)
    picture(book, "variants_dropped", after, height=250)
    sums = [float(n) for form in forms.values() for n in form.dropped.sum(dim=1)]
    prose.markdown(
        f"Before, each row sums to 1. Afterwards they sum to between **{min(sums):.2f}** and "
        f"**{max(sums):.2f}**. Later keys stay at 0: dropout comes after the mask."
    )
    code(heads.weights_of, mlp.drop, heads.drop_weights)
