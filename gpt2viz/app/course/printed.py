"""Printed and computed: the figures of the texts beside those that their own inputs give."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from gpt2viz.app import prose
from gpt2viz.app.course.parts import Book, code, heading
from gpt2viz.app.course.questions import Question
from gpt2viz.app.literal import literal
from gpt2viz.labels import pluralize
from gpt2viz.textbook.claims import TEXTS, Claim, Text
from gpt2viz.textbook.examples import EXAMPLES, claims

_COLOR = {"agrees": "green", "differs": "orange"}


def draw(_book: Book) -> list[Question]:
    """Every example, with the texts that have it and all that they print of it."""
    prose.markdown(
        "The worked examples of this book come from five texts. Here is all that they print of "
        "them, beside what comes out of their own inputs. This is for those who have read them; "
        "nothing in the chapters rests on it."
    )
    in_all = st.container()
    prose.markdown("\n\n".join(_source(n, text) for n, text in TEXTS.items()))
    prose.caption("The numbers E1, E2 and so on are this project's own.")
    for id, example in EXAMPLES.items():
        heading(id)
        results = claims(id)
        prose.caption(_counts(results))
        prose.markdown(
            "\n".join(["|what|printed|computed|  |", "|:-|:-|:-|:-|", *map(_row, results)])
        )
        code(example.claims)
    every = Counter(claim.verdict for id in EXAMPLES for claim in claims(id))
    prose.markdown(
        f"Of {every['agrees'] + every['differs']} printed results **{every['agrees']} agree** and "
        f"**{every['differs']} differ**. A number agrees when it lies within half a unit of its "
        "last printed digit. Where a reason is known, it is given.",
        slot=in_all,
    )
    return []


def _source(n: int, text: Text) -> str:
    """A text with its author, and the examples that it has."""
    ids = ", ".join(id for id, example in EXAMPLES.items() if n in example.texts)
    author = f"{literal(text.author)}, " if text.author else ""
    after = f", after {literal(text.after)}" if text.after else ""
    return f"- {author}*{literal(text.title)}*{after}: {ids}"


def _counts(results: tuple[Claim, ...]) -> str:
    """The number of printed results that agree and that differ."""
    counts = Counter(claim.verdict for claim in results)
    agree, differ = counts["agrees"], counts["differs"]
    if not agree + differ:
        return "The texts print no figures; these are computed."
    verbs = f"{agree} agree{'s' * (agree == 1)}, {differ} differ{'s' * (differ == 1)}"
    return f"{pluralize(agree + differ, 'results')} printed: {verbs}."


def _row(claim: Claim) -> str:
    verdict = f":{_COLOR[claim.verdict]}-badge[{claim.verdict}]" if claim.verdict else ""
    why = f" {claim.why}" if claim.verdict == "differs" else ""
    numbers = (claim.printed, claim.written)
    cells = (claim.what, *(f"`{text}`" if text else "–" for text in numbers))
    return "|".join(["", *cells, verdict + why, ""])
