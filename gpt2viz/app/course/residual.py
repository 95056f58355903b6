"""The stream, LayerNorm and small first parameters: what lets many layers work together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.parts import Book, code, heading, picture, play, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import enough, equals
from gpt2viz.arrays import Array
from gpt2viz.labels import bidi_isolate, label, power_of_ten
from gpt2viz.pictures import frames
from gpt2viz.pictures.frames import Stop, written
from gpt2viz.pictures.training import curves_at
from gpt2viz.textbook import residual

_FOUR = ("0", "1", "2", "3")
_DEPTHS = [2, 6, 12, 24, 48]


def draw(book: Book) -> Iterator[Question]:
    """E11, E12 and E17."""
    prose.markdown(
        "A token's vector runs through all layers like a stream. No layer replaces it: each reads "
        "it, works something out, and **adds** the result."
        "\n\nSo what an early layer wrote is still part of the sum at the end. And in training, "
        "the error's signal runs back along the same straight path."
    )
    yield from _stream(book)
    draw_express_lane(book)
    yield from _norm()
    _order(book)
    yield from _depth(book)


def _stream(book: Book) -> Iterator[Question]:
    heading("E11")
    prose.markdown("Here x is the stream, and f(x) what a layer works out from it.")
    left, right = st.columns(2, gap="large")
    with left:
        both = table(
            parameters.STREAM, "The stream, and what is added", (residual.STREAM, residual.ADDED),
            ("x", "f(x)"), _FOUR,
        )  # fmt: skip
    total = residual.add(both[0], both[1])
    with right:
        panel = vectors("x + f(x)", [*both, total], ("x", "f(x)", "sum"), _FOUR, ("", "channel"))
        picture(book, "stream_picture", [panel], height=210)
    st.latex(rf"x + f(x) {equals(total)}")
    code(residual.add)
    stream_flows(book)
    erased = bool(abs(np.asarray(total)).max() < 1e-6)
    unchanged = bool(np.allclose(both[0], residual.STREAM))
    yield from [
        Question(
            "stream_erase",
            "What must f(x) be so that the stream becomes **0** in all four channels? Enter it.",
            "What must be added to a number so that nothing is left?",
            "A layer can erase what another has written, by adding its opposite. Some heads and "
            "MLPs seem to do just that (Elhage et al. 2021).",
            done=erased and unchanged,
            note="The sum is 0, but x was changed too. Put it back." if erased else "",
        ),
    ]


def _norm() -> Iterator[Question]:
    heading("E12")
    prose.markdown(
        "Before a part reads the stream, **LayerNorm** brings its copy to a standard size. It "
        "subtracts the mean μ (mu) and divides by the standard deviation σ (sigma), the root of "
        "the variance σ². Then it multiplies by a learned gain γ (gamma) and adds a learned shift "
        "β (beta)."
        "\n\nEach token is normalised on its own. Beside σ² stands ε (epsilon), a mere 0.00001, "
        "so that nothing is divided by 0."
    )
    rows = table(
        parameters.NORM,
        "x, gain and shift",
        (np.add(residual.STREAM, residual.ADDED).round(6), np.ones(4), np.zeros(4)),
        ("x", "gain γ", "shift β"),
        _FOUR,
    )
    steps = residual.layer_norm(*rows)
    _steps(steps, rows)
    code(residual.layer_norm)
    x = rows[0]
    equal, shifted = bool(np.ptp(x) == 0), bool(np.any(rows[2] != 0))
    note = ""
    if equal:
        note = "The shift is added at the end. Put it back to 0." if shifted else "Not four zeros."
    yield from [
        Question(
            "norm_flat",
            "Normalise a vector of four **equal** numbers other than 0. What comes out?",
            "What is their mean, and what is left once it is subtracted?",
            "All zeros: after subtracting the mean nothing is left, and ε saves the division. "
            "LayerNorm keeps only how the channels differ.",
            done=equal and bool(x[0] != 0) and not shifted,
            note=note,
        ),
        Question(
            "norm_scale",
            "If every number of x is multiplied by 10, what is the normalised vector multiplied "
            "by? (ε is negligible.)",
            "Try it in the table. What happens to the mean, and what to the standard deviation?",
            "The mean and the standard deviation grow with x. A part that reads the stream through "
            "LayerNorm can't tell how large it was.",
            answer="1",
            also=("unchanged", "same", "stays the same", "no change", "not at all", "nothing"),
        ),
    ]


def _steps(steps: residual.Normed, rows: Array) -> None:
    """LayerNorm line by line; each follows from those above it and the table."""
    x, gain, shift = rows.astype(float)
    normed, variance = np.asarray(steps.normed, float), float(steps.variance)
    k = enough(normed, lambda z: z * gain + shift, steps.output)
    centred = np.asarray(steps.centred, float)
    m = enough(centred, lambda c: c / np.sqrt(variance + residual.EPSILON), normed, k)
    n = enough(variance, lambda v: centred / np.sqrt(v + residual.EPSILON), normed, m)
    mean = equals(steps.mean, enough(steps.mean, lambda mu: x - mu, centred, n))
    st.latex(rf"\mu {mean} \qquad \sigma^2 {equals(variance, n)}")
    st.latex(rf"x - \mu {equals(centred, m)}")
    st.latex(rf"\frac{{x-\mu}}{{\sqrt{{\sigma^2+\varepsilon}}}} {equals(normed, k)}")
    st.latex(rf"\cdot\,\gamma + \beta {equals(steps.output)}")


def _order(book: Book) -> None:
    prose.markdown(
        "**Before or after?** The first transformer (2017) normalised the sum: *post-norm*. GPT-2 "
        "normalises what a part reads and leaves the stream alone: *pre-norm*."
        "\n\nHow much of the gradient arrives **straight along the stream**:"
    )
    depth, orders = 24, ("pre-norm", "post-norm")
    straight = {order: residual.gradients(order, depth, straight=True) for order in orders}
    output.picture(
        curves_at(
            "Gradient that comes straight back along the stream, with pre-norm and post-norm",
            range(depth + 1),
            straight,
            "parts from the start of the stack",
            "gradient, as a fraction of the end's",
        ),
        book.colors,
        key="norm_order",
        of_run=False,
    )
    in_all = [residual.gradients(order, depth)[0] for order in orders]
    grown = residual.stacked("pre-norm", depth)[-1]
    prose.markdown(
        "Post-norm divides the sum by its size after every part, and the straight path with it: "
        f"after {depth} parts **{straight['post-norm'][0]:.4f}** of the gradient is left. Pre-norm "
        f"leaves all of it, while its stream grows, here to size {grown:.1f}."
        "\n\nGradients come back through the parts too. In all, "
        f"{in_all[0]:.1f} times the end's gradient arrives with pre-norm. With post-norm it is "
        f"{in_all[1]:.1f} times, nearly all of it through the parts."
        "\n\nSo deep stacks with pre-norm can be trained (Wang et al. 2019, *Learning Deep "
        "Transformer Models for Machine Translation*). Nor do they need a warm-up, a start "
        "with small steps (Xiong et al. 2020, *On Layer Normalization in the "
        "Transformer Architecture*)."
    )
    prose.caption("Random linear layers as parts, C = 32.")
    code(
        residual.gradients,
        residual.stacked,
        residual.PreNorm,
        residual.PostNorm,
        residual.LayerNorm,
        residual.Fixed,
    )


def _depth(book: Book) -> Iterator[Question]:
    heading("E17")
    prose.markdown(
        "An untrained model of L layers adds 2L random vectors to the stream. Their "
        "sum grows like $\\sqrt{2L}$. So GPT-2 draws the parameters that write into the stream "
        "smaller, with standard deviation $0.02/\\sqrt{2L}$ in place of 0.02 (Radford et al. "
        "2019)."
        "\n\nThe size of the stream is its RMS (root mean square): square the numbers, take the "
        "mean and the root."
    )
    n_layer: int = st.segmented_control(
        "Layers L", required=True, **address.choice(parameters.DEPTH, _DEPTHS)
    )
    plain = residual.stream_sizes(n_layer, scaled=False)
    small = residual.stream_sizes(n_layer, scaled=True)
    st.latex(rf"0.02 / \sqrt{{2 \cdot {n_layer}}} {equals(residual.first_deviation(n_layer), 5)}")
    output.picture(
        curves_at(
            "Size of the stream against depth",
            range(n_layer + 1),
            {"all parameters 0.02": plain, "writers 0.02 / √(2L)": small},
            "layers passed",
            "size of the stream (RMS)",
        ),
        book.colors,
        key="depth_curves",
        of_run=False,
    )
    grown, held = plain[-1] / plain[0], small[-1] / small[0]
    prose.markdown(
        f"After {n_layer} layers the stream is **{grown:.2f}** times as large as at the start, "
        f"with smaller writers **{held:.2f}** times. Measured on an untrained GPT-2 with random "
        "parameters, C = 96."
    )
    code(residual.stream_sizes, residual.first_deviation)
    yield from [
        Question(
            "depth_ten",
            "Find a depth at which the plain stream grows more than **tenfold**.",
            "Each layer adds two more vectors.",
            f"The scaled one is still about {held:.1f} times its initial size: the rule cancels "
            "the effect of depth.",
            done=grown > 10,
        ),
    ]


def draw_express_lane(book: Book) -> None:
    """Two stacks of the same parts, and what of the gradient arrives at each layer."""
    st.subheader("An express lane for gradients", anchor="lane")
    prose.markdown(
        "In training, a **gradient** runs back from the end: for each number it tells how a small "
        "change in it would change the error. Through a part it has to pass all of its "
        "tables. Past it, along the stream, it arrives unchanged.\n\n"
        "Now take the stream away: the same random MLPs are stacked twice. In one stack each "
        "replaces what it read, f(x). In the other it is added, x + f(x)."
    )
    depth: int = st.segmented_control(
        "Layers", required=True, **address.choice(parameters.LANE_DEPTH, _DEPTHS)
    )
    gradients = {
        "x + f(x)": residual.lane_gradients(depth, residual=True),
        "f(x)": residual.lane_gradients(depth, residual=False),
    }
    output.picture(
        curves_at(
            "Gradient at each layer, with and without the residual, as powers of ten",
            range(depth + 1),
            {name: np.log10(sizes) for name, sizes in gradients.items()},
            "layer",
            "log₁₀ of the gradient over that at the end",
        ),
        book.colors,
        key="lane",
        of_run=False,
    )
    first, lost = (sizes[0] for sizes in gradients.values())
    prose.markdown(
        f"With the residual, **{first:.3g}** times the end's gradient arrives at the first layer. "
        f"Without it, **{power_of_ten(lost)}** times. On the scale −3 means a thousandth."
    )
    prose.caption("C = 32, untrained, without norms.")
    code(residual.lane_gradients)


def stream_flows(book: Book) -> None:
    """A token of the sentence on its way through the model above."""
    view = book.view
    position = view.n_tokens - 1 if view.query is None else view.query
    prose.markdown(
        "**In the model above.** Choose a token and follow its vector. A vector's **length** is "
        "the root of the sum of its squared numbers. The **cosine** of two vectors tells whether "
        "they point the same way: 1 if they do, 0 at a right angle, −1 if they are opposite."
        "\n\nAt each step those rows of the token table are listed that point most nearly the same "
        "way."
    )
    stops = residual.stops(view.model, view.trace, position)
    name, tokenizer = bidi_isolate(view.labels[position]), view.model.tokenizer
    stations = []
    for n, stop in enumerate(stops):
        texts = [label(tokenizer.token_bytes(int(id))) for id in stop.nearest]
        added, length = (float(np.linalg.norm(x.astype(float))) for x in (stop.added, stop.stream))
        near = f"Nearest row: “{bidi_isolate(texts[0])}”, cosine {written(stop.alike[0])}."
        stations.append(
            Stop(
                f"“{name}”: {_what_was_added(stop, added, length)} {near}",
                added,
                length,
                stop.cosine if n else None,
                list(zip(map(int, stop.nearest), texts, strict=True)),
                stop.alike.tolist(),
            )
        )
    play(book, frames.way_through(stations), parameters.STREAM_STEP, of_run=True)
    code(residual.stops)


def _what_was_added(stop: residual.Stop, added: float, length: float) -> str:
    if stop.key == "token_embedding":
        return f"its row of the token table, length {written(length)}."
    part = {"embedding": "its position", "residual_mid": "attention", "residual_out": "the MLP"}
    where = "" if stop.layer is None else f"layer {stop.layer}, "
    return (
        f"{where}{part[stop.key]} adds a vector of length {written(added)}. The stream is now "
        f"{written(length)} long; cosine to before {written(stop.cosine)}."
    )
