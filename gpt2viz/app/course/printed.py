"""Printed and computed: the texts' numbers beside those computed from the same inputs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import streamlit as st

from gpt2viz.app import prose
from gpt2viz.app.course.parts import Book, code, heading
from gpt2viz.app.literal import literal
from gpt2viz.labels import pluralize
from gpt2viz.textbook.claims import TEXTS, Claim, Text
from gpt2viz.textbook.examples import EXAMPLES, claims

_COLOR = {"agrees": "green", "differs": "orange"}


def sources(_book: Book) -> dict[str, Any]:
    """List the texts, below a container for the counts of all results."""
    in_all = st.container()
    prose.markdown("\n\n".join(_source(n, text) for n, text in TEXTS.items()))
    return {"in_all": in_all}


def results(book: Book, text: str) -> None:
    """Draw every example, with the printed numbers of the texts and the computed ones."""
    for id, example in EXAMPLES.items():
        heading(id)
        results = claims(id)
        prose.caption(_counts(results))
        prose.markdown(
            "\n".join(["|what|printed|computed|  |", "|:-|:-|:-|:-|", *map(_row, results)])
        )
        code(example.claims)
    every = Counter(claim.verdict for id in EXAMPLES for claim in claims(id))
    agree, differ = every["agrees"], every["differs"]
    with book.values["in_all"]:
        book.write(text, results=agree + differ, agree=agree, differ=differ)


def _source(n: int, text: Text) -> str:
    """Return a text's list entry: its author, title and examples."""
    ids = ", ".join(id for id, example in EXAMPLES.items() if n in example.texts)
    author = f"{literal(text.author)}, " if text.author else ""
    after = f", after {literal(text.after)}" if text.after else ""
    return f"- {author}*{literal(text.title)}*{after}: {ids}"


def _counts(results: tuple[Claim, ...]) -> str:
    """Say how many printed results agree and differ."""
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
