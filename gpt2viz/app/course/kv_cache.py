"""The KV cache: what a head need not work out again."""

from __future__ import annotations

from collections.abc import Iterator

import streamlit as st

from gpt2viz.app import output, pages, parameters, prose
from gpt2viz.app.course.checks import Question
from gpt2viz.app.course.parts import PLANE, TOKENS, Book, code, link, picture, vectors
from gpt2viz.app.course.tables import table
from gpt2viz.labels import difference
from gpt2viz.pictures.curves import curves_at
from gpt2viz.textbook import after_gpt2, attention


def draw(book: Book) -> Iterator[Question]:
    """Keys and values that are kept: the same outputs for less work."""
    prose.markdown(
        "GPT-2 writes one token at a time. Must it read the whole text again for each? No. The "
        "causal mask lets no token see a later one. So what a head has worked out for a token "
        "never changes, and its key and value can be kept: that is the **KV cache**.\n\n"
        "The new token's query meets all keys that were kept. Old queries aren't needed again "
        "(Pope et al. 2022, *Efficiently Scaling Transformer Inference*).\n\n"
        "Here four words are written by one small head, with the tables of *Attention by hand*. It "
        "is done both ways: reading all words again at each step, and with a cache."
    )
    tables, labels = attention.drawn_weights(), attention.SENTENCE
    left, right = st.columns([2, 5], gap="large")
    with left:
        x = table(parameters.CACHE_X, "x: four words", attention.SENTENCE_X, labels, PLANE)
    again, cached = after_gpt2.write_again(x, *tables), after_gpt2.write_cached(x, *tables)
    with right:
        made = {"keys kept": cached.keys, "values kept": cached.values}
        made |= {"output, read again": again.output, "output, cached": cached.output}
        panels = [vectors(name, part, labels, ("1", "2"), TOKENS) for name, part in made.items()]
        picture(book, "cache_kept", panels, height=240)
    gap = float((again.output - cached.output).abs().max())
    prose.markdown(
        f"Largest difference of the outputs: **{difference(gap)}**. They may differ by rounding, "
        "no more. What differs is the work. Here it is in multiply-adds, step by step: each is a "
        "product that is added to a sum."
    )
    for name, cost in (("read again", again.cost), ("cached", cached.cost)):
        st.latex(rf"\text{{{name}: }} {' + '.join(map(str, cost))} = {sum(cost)}")
    code(
        attention.drawn_weights,
        attention.attend,
        after_gpt2.write_again,
        after_gpt2.write_cached,
        after_gpt2.Counter,
    )
    yield from _cache_questions()
    _long_text(book)
    to_generate("The model's own cache, on Generate")


def to_generate(label: str) -> None:
    """A link to where the model writes, with its cache shown."""
    link(pages.PREDICT, label, {parameters.PREDICT: "generate", parameters.CACHE: True})


def _long_text(book: Book) -> None:
    """The work at each step of a longer text, in a head as wide as GPT-2 small's."""
    T, C, hs = 32, 768, 64
    again, cached = after_gpt2.cache_costs(T, C, hs)
    output.picture(
        curves_at(
            f"Multiply-adds of each step in a head of GPT-2 small, {T} tokens",
            range(1, T + 1),
            {"read again": again, "cached": cached},
            "step",
            "multiply-adds",
        ),
        book.colors,
        key="cache_cost",
        of_run=False,
    )
    prose.markdown(
        f"In all {T} steps, reading again takes **{sum(again) / sum(cached):.1f}** times as many "
        f"multiply-adds. The price of the cache is room: 2 · {hs} numbers a token, in each head of "
        "each layer."
    )
    code(after_gpt2.cache_costs)


def _cache_questions() -> list[Question]:
    return [
        Question(
            "cache_tenth",
            "How many multiply-adds would a **tenth** word take in the small head, with the cache?",
            "Part of the work is for the word itself, the rest for each word that it sees. By how "
            "much does the cost above grow from step to step?",
            "12 + 10 · 4. Read again, it would be 10 · 12 + 10 · 10 · 4 = 520.",
            answer="52",
            also=("fifty-two",),
        ),
    ]
