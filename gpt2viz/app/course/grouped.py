"""Grouped-query attention: fewer keys and values to keep."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.parts import PLANE, Book, code, pairs, picture
from gpt2viz.app.course.tables import table
from gpt2viz.textbook import after_gpt2, attention, heads

_GROUPS = [1, 2, 3, 4]


def draw(book: Book) -> list[Question]:
    """Query heads that share keys and values."""
    prose.markdown(
        "A KV cache grows with every token, in every head. In **grouped-query attention** several "
        "query heads share one head of keys and values. Each still asks its own question, but they "
        "search the same keys.\n\n"
        "With one group for all it is called multi-query attention (Shazeer 2019, *Fast "
        "Transformer Decoding*). With a group for each head it is what GPT-2 does. In between, "
        "nearly as little must be kept, and little quality is lost (Ainslie et al. 2023, "
        "*GQA*).\n\n"
        "Here are four heads, their tables drawn from a seed. The keys and values of a group are "
        "made by the mean of its heads' tables. In the same way the paper turns a trained model "
        "into a grouped one, and then trains it a little more."
    )
    nh, hs, labels = 4, 2, attention.SENTENCE
    left, right = st.columns([2, 5], gap="large")
    with left:
        x = table(parameters.GROUP_X, "x: four words", attention.SENTENCE_X, labels, PLANE)
        groups: int = st.segmented_control(
            "Groups", _GROUPS, required=True, **address.choice(parameters.GROUPS, _GROUPS)
        )
    w_q, w_k, w_v = after_gpt2.drawn_heads(nh, hs, x.shape[1])
    try:
        found = after_gpt2.share(x, w_q, after_gpt2.pool(w_k, groups), after_gpt2.pool(w_v, groups))
    except heads.ShapeError as error:
        st.error(str(error), icon=":material/error:")
        code(after_gpt2.drawn_heads, after_gpt2.pool)
    else:
        with right:
            panels = [
                pairs(
                    f"head {n}, group {group}",
                    head.weights,
                    labels,
                    "attention weight",
                    head.masked_scores.isneginf(),
                )
                for n, (head, group) in enumerate(zip(*found, strict=True))
            ]
            picture(book, "group_weights", panels, "unit", height=260)
        code(after_gpt2.drawn_heads, after_gpt2.pool, after_gpt2.share, attention.attend)
    return _groups_kept(groups, hs, len(x))


def _groups_kept(groups: int, hs: int, T: int) -> list[Question]:
    """What the small case keeps, and what GPT-2 small would."""
    if not 4 % groups:
        few = after_gpt2.cache_bytes(T, groups, hs, width=4)
        st.latex(
            rf"2 \cdot {groups} \text{{ groups}} \cdot {T} \text{{ words}} \cdot {hs} "
            rf"\text{{ numbers}} \cdot 4 = {few} \text{{ bytes}}"
        )
    sizes = [12, 6, 4, 3, 2, 1]
    kept = [after_gpt2.cache_bytes(1024, n, 64, n_layer=12) for n in sizes]
    prose.markdown(
        "Only keys and values are kept: here with 4 bytes a number. Below is what GPT-2 small "
        "would keep of 1,024 tokens if its 12 heads shared, in all 12 layers, with 2 bytes a "
        "number. 64 is its head size."
    )
    output.table(
        {
            "groups": sizes,
            "query heads in each": [12 // n for n in sizes],
            "megabytes kept": [n / 1e6 for n in kept],
        },
        "What GPT-2 small would keep, by groups",
        hide_index=True,
        column_config={"megabytes kept": st.column_config.NumberColumn(format="%.1f")},
    )
    st.latex(
        rf"2 \cdot 12 \text{{ layers}} \cdot 12 \text{{ groups}} \cdot 1024 \cdot 64 \cdot 2 = "
        rf"{kept[0]:,} \text{{ bytes}}".replace(",", "{,}")
    )
    code(after_gpt2.cache_bytes)
    return [
        Question(
            "groups_factor",
            "32 query heads share 8 groups of keys and values. How many **times** smaller is the "
            "cache than with a group for each head?",
            "What is kept grows with the number of groups.",
            "32 / 8. Keys and values shrink alike. The queries were never kept.",
            answer="4",
            also=("fourfold", "quarter", "to a quarter"),
        ),
    ]
