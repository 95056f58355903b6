"""Words as points: which vectors lie near one another, and what king − man + woman comes to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.course.parts import Book, code
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Text
from gpt2viz.labels import shorten
from gpt2viz.pictures.picture import Points
from gpt2viz.textbook import embeddings
from gpt2viz.textbook.embeddings import Near

#: Words that are drawn at most, and characters of a field.
_MOST, _LONGEST = 16, 120
#: Neighbours that are named of each word, and of a sum.
_NEAR, _NEAR_SUM = 3, 5
#: Tokens that a sum needs: three, and the one that is hoped for.
_SUM = 4

#: A word -> its token.
_Words = dict[str, int]


def draw(book: Book) -> None:
    """The reader's words in a plane, with their neighbours; and a sum of three of them."""
    st.subheader("Words as points", anchor="plane")
    prose.markdown(
        "Each vector is a point in a space with as many directions as it has numbers. Nobody can "
        "picture that. But it can be looked at from one side: along the two directions in which "
        "the words below differ most. These are their first two **principal components**.\n\n"
        "How near two vectors are is told by the **cosine** of the angle between them. It is 1 "
        "where they point the same way, and 0 at right angles."
    )
    left, right = st.columns(2, gap="large")
    with left:
        words = _asked("Words to draw", parameters.PLANE_WORDS, book)
    with right:
        terms = _asked("A sum: first − second + third, and the word hoped for",
                       parameters.PLANE_SUM, book)  # fmt: skip
    whole = len(terms) == _SUM
    if len(words) < 2:
        prose.markdown("Type **two words** or more, each of them one token of this model.")
        return
    table = embeddings.table_of(book.view.model)
    if not np.isfinite(np.asarray(table[[*words.values(), *terms.values()]])).all():
        prose.markdown("The vectors of some of these words hold numbers that aren't finite.")
        return
    _plane(book, words, terms if whole else {})
    if whole:
        _sum(book, terms)
    else:
        prose.markdown("For a sum, type **four different words**, each of them one token.")


def _asked(label: str, parameter: Text, book: Book) -> _Words:
    """The words of a field that are one token each, and a line about those that aren't."""
    typed = st.text_input(label, max_chars=_LONGEST, autocomplete="off", **address.text(parameter))
    words = list(dict.fromkeys(typed.replace(",", " ").split()))[:_MOST]
    found = {word: embeddings.token_of(word, book.view.model.tokenizer) for word in words}
    if others := [word for word, id in found.items() if id is None]:
        said = ", ".join(literal(shorten(word)) for word in others)
        prose.caption(f"Not one token in this model's vocabulary, so left out: {said}")
    return {word: id for word, id in found.items() if id is not None}


def _plane(book: Book, words: _Words, terms: _Words) -> None:
    """The picture, and each word's nearest neighbours in the whole vocabulary."""
    table = embeddings.table_of(book.view.model)
    ids = list(words.values())
    found = embeddings.plane(table[ids])
    points = np.asarray(embeddings.seen_in(found, table[ids]))
    names = [shorten(word) for word in words]
    if terms:
        total = embeddings.sum_of(table, list(terms.values())[:3])[None]
        points = np.vstack([points, np.asarray(embeddings.seen_in(found, total))])
        names.append(_written(terms))
    across, up = points.T.tolist()
    drawn = Points(
        "Words as points of a plane",
        names,
        across,
        up,
        "first component",
        "second component",
        made=[len(words)] if terms else [],
    )
    output.picture(drawn, book.colors, key="word_plane", of_run=False)
    first, second = np.asarray(found.share)
    prose.caption(
        f"The plane keeps {first:.0%} and {second:.0%} of how the words differ. What it leaves "
        "out can't be seen here: points that touch may lie far apart."
    )
    cosine = embeddings.cosines(table, table[ids])
    near = [embeddings.nearest(row, _NEAR, [id]) for row, id in zip(cosine, ids, strict=True)]
    output.table(
        {"word": list(words), "nearest, with the cosine": [_listed(book, one) for one in near]},
        "Nearest neighbours of the words",
        hide_index=True,
        height="content",
    )
    prose.caption(f"Of all {len(table):,} tokens. `·` is a space, with which most words begin.")
    code(
        embeddings.token_of,
        embeddings.table_of,
        embeddings.plane,
        embeddings.seen_in,
        *([embeddings.sum_of] if terms else []),
        embeddings.cosines,
        embeddings.nearest,
    )


def _sum(book: Book, terms: _Words) -> None:
    """What a sum of three words is nearest to, with those words and without them."""
    table = embeddings.table_of(book.view.model)
    *three, hoped = terms.values()
    first, *_, wanted = (literal(shorten(word)) for word in terms)
    total = embeddings.cosines(table, embeddings.sum_of(table, three)[None])[0]
    alone = embeddings.cosines(table, table[three[:1]])[0]
    rows = {
        "the sum": embeddings.nearest(total, _NEAR_SUM),
        "the sum, without the three words": embeddings.nearest(total, _NEAR_SUM, three),
        "the first word alone, without the three": embeddings.nearest(alone, _NEAR_SUM, three),
    }
    prose.markdown(
        f"If directions have a meaning, then **{literal(_written(terms))}** should lie near "
        f"**{wanted}**. {_verdict(rows['the sum'], three)}"
    )
    output.table(
        {"nearest to": list(rows), "with the cosine": [_listed(book, n) for n in rows.values()]},
        "Nearest neighbours of the sum",
        hide_index=True,
    )
    places = [embeddings.rank(cosine, hoped, three) for cosine in (total, alone)]
    prose.markdown(
        f"Without the three words, **{wanted}** is at place **{places[0]:,}** of the sum's "
        f"neighbours. Of those of **{first}** alone it is at place {places[1]:,}. "
        f"{_gained(*places)}\n\n"
        "Demonstrations of such sums leave the three words out, often without a word about it. "
        "Much of what is left comes from words that were near from the start (Linzen 2016, "
        "*Issues in Evaluating Semantic Spaces Using Word Analogies*)."
    )
    code(embeddings.sum_of, embeddings.table_of, embeddings.cosines, embeddings.nearest,
         embeddings.rank)  # fmt: skip


def _verdict(near: Sequence[Near], three: Collection[int]) -> str:
    """What to say of the sum's nearest neighbour."""
    if near[0].id in three:
        return "What really comes out is nearest to **one of the three words themselves**."
    return "What really comes out is nearest to a word other than the three."


def _gained(of_sum: int, of_first: int) -> str:
    """What to say of the word hoped for, by its place near the sum and near the first word."""
    if of_sum < of_first:
        return "So the sum moved it up the list."
    if of_sum > of_first:
        return "So the sum moved it down the list."
    return "So the sum did not change its place."


def _written(terms: _Words) -> str:
    a, b, c, *_ = map(shorten, terms)
    return f"{a} − {b} + {c}"


def _listed(book: Book, near: Sequence[Near]) -> str:
    names = run_cache.vocabulary(book.view.model.name)
    return ", ".join(f"{names[one.id]} {one.cosine:.2f}" for one in near)
