"""What the mask alone tells of the order: the same words in two orders, through attention."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course.parts import PLANE, TOKENS, Book, code, picture, vectors
from gpt2viz.textbook import attention, embeddings


def draw(book: Book) -> None:
    """The words of E3 in both orders, with and without positions and mask."""
    st.subheader("What the mask tells about the order", anchor="two-orders")
    prose.markdown(
        "Attention adds up what words hand over. Where every word sees every other, each is given "
        "the same in “crane ate fish” as in “fish ate crane”, if no position tells them apart."
        "\n\nThe mask lets a word see only itself and those before it. That alone says something "
        "about the order. Models can learn from it without any other help (Haviv et al. 2022, "
        "*Transformer Language Models without Positional Encodings Still Learn Positional "
        "Information*). Here attention has nothing learned."
    )
    with st.container(horizontal=True, gap="large"):
        on = st.toggle("Add the position vectors", **address.switch(parameters.ORDER_ON))
        causal = st.toggle("Mask both sentences", **address.switch(parameters.ORDER_MASK))
    places = np.array(embeddings.POSITION_VECTORS) * on
    both = (0, 1, 2), (2, 1, 0)
    found = [embeddings.read_in_order(order, places, causal=causal) for order in both]
    panels = [
        vectors(
            " ".join(embeddings.WORDS[n] for n in order), mixed, embeddings.WORDS, PLANE, TOKENS
        )
        for order, mixed in zip(both, found, strict=True)
    ]
    picture(book, "order", panels, height=240)
    gap = float((found[0] - found[1]).abs().max())
    prose.markdown(f"Largest difference between the two sentences, rounded: **{gap:.4f}**")
    code(embeddings.look_up, embeddings.place, embeddings.read_in_order, attention.attend)
