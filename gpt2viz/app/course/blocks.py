"""MLPs with GELU, with ReLU and with a gate, run on the same words."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.parts import TOKENS, Book, code, picture, vectors
from gpt2viz.app.course.tables import table
from gpt2viz.textbook import attention, mlp

_AXES = ("x₁", "x₂", "x₃")


def draw(book: Book) -> None:
    """Six words through three blocks of equally many parameters."""
    st.subheader("Three blocks, one input", anchor="blocks")
    left, right = st.columns([3, 1], gap="medium")
    with left:
        x = table(parameters.BLOCKS_X, "Six words", attention.JOURNEY_X, attention.JOURNEY, _AXES)
    seeds = range(10)
    seed: int = right.selectbox("Seed", seeds, **address.choice(parameters.BLOCKS_SEED, seeds))
    found = mlp.run_blocks(x, seed)
    n = {ran.n_parameters for ran in found.values()}
    prose.markdown(
        "Three MLPs read the same six words. The first two differ only in their curve. The third, "
        "**SwiGLU**, has a gate, as a later chapter explains. Without biases each has "
        f"**{n.pop()} parameters**, drawn from a seed."
    )
    panels = [
        vectors(name, ran.output, attention.JOURNEY, _AXES, TOKENS) for name, ran in found.items()
    ]
    picture(book, "blocks", panels, height=270)
    zero = {name: float((ran.inside == 0).float().mean()) for name, ran in found.items()}
    output.table(
        {
            "block": list(found),
            "channels inside": [ran.inside.shape[1] for ran in found.values()],
            "exactly 0 inside": [f"{share:.0%}" for share in zero.values()],
            "smallest inside": [float(ran.inside.min()) for ran in found.values()],
            "largest inside": [float(ran.inside.max()) for ran in found.values()],
        },
        "Inside three blocks",
        hide_index=True,
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
