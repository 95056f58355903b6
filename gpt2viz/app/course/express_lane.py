"""The residual as an express lane: the gradient at every layer, with it and without it."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.parts import Book, code
from gpt2viz.labels import power_of_ten
from gpt2viz.pictures.curves import curves_at
from gpt2viz.textbook import residual

_DEPTHS = [2, 6, 12, 24, 48]


def draw(book: Book) -> None:
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
        "Layers", _DEPTHS, required=True, **address.choice(parameters.LANE_DEPTH, _DEPTHS)
    )
    found = {
        "x + f(x)": residual.lane_gradients(depth, residual=True),
        "f(x)": residual.lane_gradients(depth, residual=False),
    }
    output.picture(
        curves_at(
            "Gradient at each layer, with and without the residual, as powers of ten",
            range(depth + 1),
            {name: np.log10(sizes) for name, sizes in found.items()},
            "layer",
            "log₁₀ of the gradient over that at the end",
        ),
        book.colors,
        key="lane",
        of_run=False,
    )
    kept, lost = (sizes[0] for sizes in found.values())
    prose.markdown(
        f"With the residual, **{kept:.3g}** times the end's gradient arrives at the first layer. "
        f"Without it, **{power_of_ten(lost)}** times. On the scale −3 means a thousandth."
    )
    prose.caption("C = 32, untrained, without norms.")
    code(residual.lane_gradients)
