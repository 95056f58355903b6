"""The causal mask: no word sees a later one, which alone conveys word order."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters
from gpt2viz.app.course import guess
from gpt2viz.app.course.parts import Book, code, largest_gap, pairs, picture, play
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.tokens import both_orders
from gpt2viz.app.course.written import equals, latex
from gpt2viz.labels import difference
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.pictures import frames
from gpt2viz.pictures.frames import block_number
from gpt2viz.textbook import attention, embeddings
from gpt2viz.textbook.tensors import rows


def weights(book: Book) -> dict[str, Any]:
    """Draw editable scaled scores, and their weights with the mask on or off."""
    labels = attention.SENTENCE
    left, right = st.columns([4, 5], gap="small")
    with left:
        scaled = Table(
            parameters.MASK_SCORES, "Scaled scores", attention.PRINTED_SCALED, labels, labels
        ).draw()
        causal = st.toggle("Mask these scores", **address.switch(parameters.MASK_ON))
    shown = attention.hide_later(rows(scaled)) if causal else rows(scaled)
    weights = shown.softmax(dim=-1)
    with right:
        seen = guess.reveal("mask", causal and bool(np.allclose(scaled, attention.PRINTED_SCALED)))
        if seen:
            panel = pairs("weights", weights, labels, "attention weight", shown.isneginf())
            picture("mask_weights", [panel], "unit", height=330)
    for n, word in enumerate(labels if seen else ()):
        st.latex(rf"\text{{{word}: }} \text{{softmax}}({latex(shown[n])}) {equals(weights[n])}")
    code(attention.hide_later)
    five, in_a_column = abs(scaled[0, 0] - 5) < 1e-6, np.ptp(scaled[:, 3]) == 0
    not_a_row = "That is the column of “fish”: how others look at it. Its own row is the last one."
    return _mask_after_softmax() | {
        "scaled": scaled,
        "seen": seen,
        "mask_first": Check(
            bool(causal and five), "The mask is off. Switch it on and look again." if five else ""
        ),
        "mask_even": Check(
            bool(np.allclose(weights[3], 0.25, atol=1e-4)), not_a_row if in_a_column else ""
        ),
    }


def _mask_after_softmax() -> dict[str, str]:
    """Return the row sums of the original table if the mask were applied after softmax."""
    weights = np.asarray(rows(attention.PRINTED_SCALED).softmax(dim=-1))
    masked = np.where(hidden_pairs(np.arange(len(weights)), causal=True), 0, weights)
    *sums, last = [float(row.sum()) for row in masked]
    return {
        "after_first": f"{masked[1, 0]:.4f}",
        "after_itself": f"{masked[1, 1]:.4f}",
        "after_sum": f"{sums[1]:.4f}",
        "after_sums": f"{', '.join(f'{total:.4f}' for total in sums)} and {round(last, 4):g}",
    }


def close_rows(book: Book) -> None:
    """Draw how the mask is applied to the scores, one row per step."""
    states = attention.closing(book.values["scaled"])
    captions = ["No mask yet: each word looks at all four, and each row of weights sums to 1."]
    for n, word in enumerate(attention.SENTENCE):
        before, after = (
            ", ".join(block_number(float(x)) for x in states[at].weights[n]) for at in (n, n + 1)
        )
        later = " and ".join(attention.SENTENCE[n + 1 :])
        went = f"−∞ goes in for {later}. Its weights {before} become {after}."
        captions.append(f"Row “{word}”: {went if later else 'nothing comes later, so it stays.'}")
    play(frames.closing_mask(states, attention.SENTENCE, captions), parameters.MASK_STEP)


#: The context, texts, heads and tokens of a stored mask's shapes.
_CONTEXT, _B, _NH, _T = 8, 2, 12, 4


def compare_masks(book: Book) -> dict[str, Any]:
    """Draw the scaled scores with M added, and with −∞ filled in."""
    tensor, labels = rows(book.values["scaled"]), attention.SENTENCE
    M, added, filled = (
        attention.added_mask(_T),
        attention.add_mask(tensor),
        attention.hide_later(tensor),
    )
    made = {"M": M, "scaled scores + M": added, "masked_fill": filled}
    panels = [pairs(name, t, labels, "score", t.isneginf()) for name, t in made.items()]
    picture("masks", panels, height=250)
    gap = largest_gap(added.softmax(dim=-1), filled.softmax(dim=-1))
    return {"added_gap": difference(gap), "context": _CONTEXT, "B": _B, "nh": _NH, "T": _T}


def stored_shapes(_book: Book) -> None:
    """List the shapes of a stored mask."""
    steps_of = attention.stored_mask_steps(_CONTEXT, _B, _NH, _T)
    output.table(
        {"step": [what for what, _ in steps_of], "shape": [size for _, size in steps_of]},
        "Shapes of a mask that is kept",
        of_run=False,
    )


def two_orders(book: Book) -> dict[str, str]:
    """Draw the words of E3 in both orders, with or without positions and mask."""
    with st.container(horizontal=True, gap="large"):
        on = st.toggle("Add the position vectors", **address.switch(parameters.MASK_PLACES))
        causal = st.toggle("Mask both sentences", **address.switch(parameters.ORDER_MASK))
    positions = np.array(embeddings.POSITION_VECTORS) * on
    read = partial(embeddings.attend_words, positions=positions, causal=causal)
    return {"orders_gap": f"{both_orders('order', read):.4f}"}
