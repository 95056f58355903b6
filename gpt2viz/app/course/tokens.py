"""Tokens and vectors, words as points, and word order: the model's input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.anatomy import merges
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.course.parts import PLANE, SAME, TOKENS, Book, largest_gap, picture, play, vectors
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import equals, latex
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Text
from gpt2viz.errors import GPT2VizError, TextError
from gpt2viz.labels import label, percent, pluralize, shorten
from gpt2viz.pictures import frames
from gpt2viz.pictures.picture import Points
from gpt2viz.textbook import embeddings
from gpt2viz.textbook.embeddings import Near

#: How many numbers of a vector fit on screen.
_SHOWN = 8
_TWO_FORMS = (
    "A word comes twice, but as two different tokens: with and without a space, or in capitals."
)


def rows(book: Book, text: str) -> dict[str, Check]:
    """Draw the vectors of the sentence's tokens."""
    trace, labels = book.view.trace, book.view.labels
    C, T, ids = trace.config.n_embd, len(labels), trace.token_ids
    names = [f"{n}" for n in range(C)][:_SHOWN]
    book.write(
        text,
        n_vocab=f"{trace.config.vocab_size:,}",
        C=C,
        T=T,
        tokens=pluralize(T, "tokens"),
        drawn=len(names),
    )
    rows = trace.stage("token_embedding")[0]
    panel = vectors("token vectors", rows[:, :_SHOWN], labels, names, TOKENS)
    picture("token_vectors", [panel], height=120 + 26 * min(T, 16), of_run=True)
    repeated = next((n for n, token in enumerate(ids) if token in ids[:n]), None)
    same = repeated is not None and np.array_equal(rows[repeated], rows[ids.index(ids[repeated])])
    own = address.get(parameters.TEXT) != parameters.TEXT.default
    plain = {label.strip("· ").casefold() for label in labels}
    return {"tokens_twice": Check(same and own, _TWO_FORMS if len(plain) < T and not same else "")}


def sums(book: Book, text: str) -> dict[str, Any]:
    """Draw the words of E3 in both orders, with or without position vectors added."""
    left, right = st.columns(2, gap="large")
    words = Table(
        parameters.ORDER_WORDS,
        "Word vectors",
        embeddings.WORD_VECTORS,
        embeddings.WORDS,
        PLANE,
    ).draw(left)
    positions = Table(
        parameters.ORDER_PLACES,
        "Position vectors",
        embeddings.POSITION_VECTORS,
        ("position 0", "position 1", "position 2"),
        PLANE,
    ).draw(right)
    on = st.toggle("Add the position vectors", **address.switch(parameters.ORDER_ON))
    added = positions if on else np.zeros_like(positions)
    book.write(text)
    gap = both_orders("order_sums", lambda order: embeddings.arrange(order, added, words))
    alike = bool(np.abs(positions[0] - positions[2]).max() < SAME)
    crane = words[0].astype(float)
    return {
        "word": latex(words[0]),
        "position_first": latex(added[0]),
        "sum_first": equals(crane + added[0]),
        "position_last": latex(added[2]),
        "sum_last": equals(crane + added[2]),
        "gap": f"{gap:.4f}",
        "order_on": Check(on and gap > 1e-3),
        "order_equal": Check(
            on and alike, "These positions would do it. Switch them on." if alike else ""
        ),
    }


def both_orders(key: str, read: Callable[[Sequence[int]], ArrayLike]) -> float:
    """Draw the words of E3, (3, 2), as ``read`` in either order; return the largest difference."""
    orders = (0, 1, 2), (2, 1, 0)
    first, second = made = [read(order) for order in orders]
    titles = [" ".join(embeddings.WORDS[n] for n in order) for order in orders]
    panels = [
        vectors(title, x, embeddings.WORDS, PLANE, TOKENS)
        for title, x in zip(titles, made, strict=True)
    ]
    picture(key, panels, height=240)
    return largest_gap(first, second)


#: Most words that are drawn, and most characters in a field.
_MOST, _LONGEST = 16, 120
#: How many neighbours of each word, and of a sum, are named.
_NEAR, _NEAR_SUM = 3, 5
#: Tokens of a sum: three, and the expected result.
_SUM = 4

#: A word -> its token.
_Words = dict[str, int]


def words(book: Book) -> dict[str, Any]:
    """Draw the fields of words and of a sum; return the ``points`` and ``terms`` to draw."""
    left, right = st.columns(2, gap="large")
    with left:
        words = _typed_words("Words to draw", parameters.PLANE_WORDS, book)
    with right:
        terms = _typed_words("A sum: first − second + third, and the word hoped for",
                       parameters.PLANE_SUM, book)  # fmt: skip
    few = len(words) < 2
    ids = [*words.values(), *terms.values()]
    finite = few or np.isfinite(np.asarray(embeddings.table_of(book.view.model)[ids])).all()
    drawn, whole = finite and not few, len(terms) == _SUM
    return {
        "few": few,
        "endless": not finite,
        "no_sum": drawn and not whole,
        "points": words if drawn else {},
        "terms": terms if drawn and whole else {},
    }


def _typed_words(label: str, parameter: Text, book: Book) -> _Words:
    """Draw a field; return the words in it that are one token each, and name the others."""
    typed = st.text_input(label, max_chars=_LONGEST, autocomplete="off", **address.text(parameter))
    words = list(dict.fromkeys(typed.replace(",", " ").split()))[:_MOST]
    ids = {word: embeddings.token_of(word, book.view.model.tokenizer) for word in words}
    if others := [word for word, id in ids.items() if id is None]:
        words_left_out = ", ".join(literal(shorten(word)) for word in others)
        prose.caption(f"Not one token in this model's vocabulary, so left out: {words_left_out}")
    return {word: id for word, id in ids.items() if id is not None}


def plane(book: Book) -> dict[str, str]:
    """Draw the words as points, and their sum."""
    words, terms = book.values["points"], book.values["terms"]
    table = embeddings.table_of(book.view.model)
    ids = list(words.values())
    seen_from = embeddings.plane(table[ids])
    points = np.asarray(embeddings.onto_plane(seen_from, table[ids]))
    names = [shorten(word) for word in words]
    if terms:
        total = embeddings.sum_of(table, list(terms.values())[:3])[None]
        points = np.vstack([points, np.asarray(embeddings.onto_plane(seen_from, total))])
        names.append(_sum_text(terms))
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
    output.picture(drawn, key="word_plane", of_run=False)
    first, second = map(percent, np.asarray(seen_from.share).tolist())
    return {"first": first, "second": second}


def neighbours(book: Book) -> None:
    """List each word's nearest neighbours in the whole vocabulary."""
    words, table = book.values["points"], embeddings.table_of(book.view.model)
    cosine = embeddings.cosines(table, table[list(words.values())])
    nearest = [
        _spell(book, embeddings.nearest(row, _NEAR, [id]))
        for row, id in zip(cosine, words.values(), strict=True)
    ]
    output.table(
        {"word": list(words), "nearest, with the cosine": nearest},
        "Nearest neighbours of the words",
        height="content",
    )


def nearest_to_sum(book: Book, text: str) -> dict[str, Any]:
    """List the nearest tokens to a sum of three words, with and without those words."""
    terms, table = book.values["terms"], embeddings.table_of(book.view.model)
    *three, hoped = terms.values()
    total = embeddings.cosines(table, embeddings.sum_of(table, three)[None])[0]
    alone = embeddings.cosines(table, table[three[:1]])[0]
    rows = {
        "the sum": embeddings.nearest(total, _NEAR_SUM),
        "the sum, without the three words": embeddings.nearest(total, _NEAR_SUM, three),
        "the first word alone, without the three": embeddings.nearest(alone, _NEAR_SUM, three),
    }
    first_word, *_, hoped_word = (literal(shorten(word)) for word in terms)
    itself = rows["the sum"][0].id in three
    book.write(text, sum=literal(_sum_text(terms)), hoped=hoped_word, itself=itself)
    output.table(
        {"nearest to": list(rows), "with the cosine": [_spell(book, n) for n in rows.values()]},
        "Nearest neighbours of the sum",
    )
    rank, rank_alone = (embeddings.rank(cosine, hoped, three) for cosine in (total, alone))
    moved = f"moved it {'up' if rank < rank_alone else 'down'} the list"
    return {
        "first_word": first_word,
        "rank": f"{rank:,}",
        "rank_alone": f"{rank_alone:,}",
        "moved": "did not change its place" if rank == rank_alone else moved,
    }


def _sum_text(terms: _Words) -> str:
    a, b, c, *_ = map(shorten, terms)
    return f"{a} − {b} + {c}"


def _spell(book: Book, near: Sequence[Near]) -> str:
    names = run_cache.vocabulary(book.view.model.name)
    return ", ".join(f"{names[token.id]} {token.cosine:.2f}" for token in near)


#: The fewest letters of a word that counts as long.
_LONG = 9


def merge_steps(book: Book) -> dict[str, Any]:
    """Draw the merges of the followed token's word, one by one, if the tokenizer has merges."""
    view, tokenizer = book.view, book.view.model.tokenizer
    ids = view.trace.token_ids
    try:
        if not (words := merges.follow(tokenizer, tokenizer.text_of(ids))):
            raise TextError("There is no word here. Type one of your own.")
    except GPT2VizError as error:
        prose.markdown(literal(str(error)))
        return {"followed": False, "bpe_long": Check()}
    n = view.position - tokenizer.own_slice(ids).start
    ends = np.cumsum([len(word.ids) for word in words])
    word = words[min(int(np.searchsorted(ends, max(n, 0), side="right")), len(words) - 1)]
    captions = [f"At the start: {pluralize(len(word.start), 'pieces')}."]
    for merge in word.merges:
        pair = " + ".join(map(label, merge.pair))
        captions.append(
            f"{pair}: number {merge.rank + 1:,} of the list"
            + (", before each other pair that stands here." if merge.others else ".")
        )
    states = [word.start, *(merge.pieces for merge in word.merges)]
    play(frames.merging_pieces(states, captions), parameters.MERGE_STEP, of_run=True)
    whole = [word.pieces[0].strip() for word in words if len(word.pieces) == 1]
    long = any(len(piece) >= _LONG and piece.isalpha() for piece in whole)
    return {
        "followed": True,
        "n_merges": f"{len(tokenizer.merges):,}",
        "n_vocab": f"{tokenizer.n_vocab:,}",
        "bpe_long": Check(long),
    }
