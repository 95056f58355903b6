"""The mask as “+ M” beside the one that is filled in, and the buffer that keeps its triangle."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import output, prose
from gpt2viz.app.course.parts import Book, code, pairs, picture
from gpt2viz.arrays import Array
from gpt2viz.labels import difference
from gpt2viz.textbook import attention
from gpt2viz.textbook.tensors import rows

#: The context, texts, heads and tokens of the shapes.
_CONTEXT, _B, _NH, _T = 8, 2, 12, 4


def draw(book: Book, scores: Array) -> None:
    """Scaled scores (T, T) with M added, and the shapes of a mask that is kept."""
    st.subheader("Filled in, or added", anchor="added")
    prose.markdown(
        "Formulas write the mask as a table **M** that is added to the scores. It holds 0 where a "
        "query may look, and −∞ where it may not. Code fills −∞ in with `masked_fill`. A number "
        "plus 0 stays, and a number plus −∞ is −∞, so both come to the same."
    )
    st.latex(r"\text{softmax}\!\left(\frac{QK^\top}{\sqrt{h_s}} + M\right)")
    st.latex(r"M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}")
    prose.caption("i is the place of the query, j that of the key.")
    tensor, labels = rows(scores), attention.SENTENCE
    M, added, filled = (
        attention.added_mask(_T),
        attention.add_mask(tensor),
        attention.hide_later(tensor),
    )
    made = {"M": M, "scaled scores + M": added, "masked_fill": filled}
    panels = [pairs(name, t, labels, "score", t.isneginf()) for name, t in made.items()]
    picture(book, "masks", panels, height=250)
    prose.caption("A masked cell holds −∞.")
    gap = float((added.softmax(dim=-1) - filled.softmax(dim=-1)).abs().max())
    prose.markdown(f"Largest difference between the two ways' weights: **{difference(gap)}**")
    code(attention.added_mask, attention.add_mask, attention.hide_later)
    prose.markdown(
        "The triangle is the same for every text, so code makes it once, for the longest one. It "
        "is kept as a **buffer**: it goes along with the module, but training leaves it alone. "
        "`.view(1, 1, n, n)` puts two axes of length 1 before it. They are stretched over the "
        f"texts of a batch and the heads. Here n = {_CONTEXT} tokens fit, and a text has T = {_T}:"
    )
    steps_of = attention.stored_mask_steps(_CONTEXT, _B, _NH, _T)
    output.table(
        {"step": [what for what, _ in steps_of], "shape": [size for _, size in steps_of]},
        "Shapes of a mask that is kept",
        hide_index=True,
    )
    prose.caption(f"B = {_B} texts at once, nh = {_NH} heads.")
    code(attention.stored_mask_steps, attention.StoredMask)
