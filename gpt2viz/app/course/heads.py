"""Many heads: the shapes at each step, variants of attention, fused and separate heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from gpt2viz.analysis.scores import SCORES
from gpt2viz.app import output, parameters
from gpt2viz.app.components import lines
from gpt2viz.app.course.parts import TOKENS, Book, largest_gap, menu, picture, play, vectors
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import equals
from gpt2viz.app.frame import controls
from gpt2viz.app.view import whole_text
from gpt2viz.app.views.measures import draw_weights
from gpt2viz.labels import difference, sentence
from gpt2viz.pictures import frames
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE
from gpt2viz.textbook import attention, heads

#: Most tokens whose vectors are drawn before they are split into heads.
_ROWS = 4


def way(book: Book) -> dict[str, Any]:
    """List the shapes of a text at each step through the heads, whose sizes are picked."""
    columns = st.columns(4)
    B = menu("B", parameters.WAY_B, [1, 2, 4], columns[0])
    T = menu("T", parameters.WAY_T, [1, 4, 6, 100], columns[1])
    C = menu("C", parameters.WAY_C, [12, 768, 1024, 1280], columns[2])
    nh = menu("heads nh", parameters.WAY_NH, [1, 2, 4, 6, 7, 12, 16, 20, 24], columns[3])
    fits = C % nh == 0
    try:
        steps = heads.shape_steps(B, T, C, nh)
        output.table(
            {"step": [what for what, _ in steps], "shape": [size for _, size in steps]},
            "Shapes on the way through the heads",
            of_run=False,
            height="content",
        )
    except heads.ShapeError as error:
        st.error(str(error), icon=":material/error:")
    return {
        "B": B,
        "T": T,
        "C": C,
        "nh": nh,
        "hs": f"= {C // nh}" if fits else equals(C / nh),
        "fits": fits,
        "way_fails": Check(
            not fits and C == 1024,
            "" if fits else f"That is refused too, but with {C:,} channels.",
        ),
    }


def split(book: Book, text: str) -> None:
    """Draw vectors of C channels being split into nh heads, which divide C, and merged again."""
    B, T, C, nh = (book.values[size] for size in ("B", "T", "C", "nh"))
    drawn, hs = min(T, _ROWS), C // nh
    names = ("split.x", "split.cut", "split.heads", "split.back", "split.merged")
    captions = [sentence(name, B=B, T=T, C=C, nh=nh, hs=hs) for name in names]
    book.write(text, cut=drawn < T, drawn=drawn)
    states = heads.split_and_merge(drawn, C, nh)
    play(frames.splitting_heads(states, nh, captions), parameters.WAY_STEP)


def variants(book: Book) -> dict[str, Any]:
    """Run six words through four forms of attention."""
    labels, axes = attention.JOURNEY, ("x₁", "x₂", "x₃")
    left, right = st.columns([3, 1], gap="medium")
    x = Table(parameters.VARIANTS_X, "Input", attention.JOURNEY_X, labels, axes).draw(left)
    seed = menu("Seed", parameters.VARIANTS_SEED, range(10), right)
    outputs = heads.four_variants(x, nh=3, seed=seed)
    panels = [vectors(name, out, labels, axes, TOKENS) for name, out in outputs.items()]
    picture("variants", panels, height=300)
    seen = {
        word: f"With the mask it sees {n} of the {len(labels)} words, without it all {len(labels)}."
        for n, word in enumerate(labels[:-1], start=1)
    }
    gap = largest_gap(outputs["causal"][-1], outputs["trainable"][-1])
    return {"seed": seed, "difference": difference(gap), "variants_last": Check(near=seen)}


def separate_heads(book: Book) -> dict[str, str]:
    """Compare three heads computed by wide tables with three separate heads."""
    fused, apart = heads.separate_and_fused(C=12, nh=3, seed=book.values["seed"])
    tokens, channels = [f"{n}" for n in range(6)], [f"{n}" for n in range(12)]
    both = {"three wide tables": fused, "three separate heads": apart}
    panels = [
        vectors(name, made, tokens, channels, ("token", "channel")) for name, made in both.items()
    ]
    picture("apart", panels, height=260)
    return {"difference": difference(largest_gap(fused, apart))}


def real_head(book: Book, text: str) -> dict[str, Any]:
    """Draw a head of the model above, and score how much each head attends to the same token."""
    view = book.view
    with st.container(horizontal=True, gap="large"):
        layer, head = controls.layer(view), controls.head(view)
        as_lines = lines.switch(whole_text(view.n_tokens), named=True)
    config = view.trace.config
    to_itself, scores, most = SCORES["same token"], {}, {}
    for n in range(config.n_layer):
        for m, weights in enumerate(view.trace.stage("weights", n)[0]):
            most[n, m] = bool((weights.argmax(axis=1) == np.arange(len(weights))).all())
            scores[n, m] = float(np.nan_to_num(to_itself.function(weights, view.trace.token_ids)))
    lonely = view.n_tokens == 1
    book.write(text, lonely=lonely, here=f"{scores[layer, head]:.2f}")
    draw_weights(
        view,
        layer,
        head,
        key="real_head",
        as_lines=as_lines,
        height=420,
        numbers=NUMBERS_FIT_LARGE,
    )
    none = "" if any(most.values()) else "No head does so with this sentence. Try another sentence."
    return {
        "best": f"{max(scores.values()):.2f}",
        "count": len(scores),
        "real_self": Check(not lonely and most[layer, head], none),
    }
