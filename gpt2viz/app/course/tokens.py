"""Tokens and vectors, words as points, and then order: what the model is given to read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import streamlit as st

from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.course.parts import PLANE, SAME, TOKENS, Book, code, heading, picture, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import equals, given
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Text
from gpt2viz.app.source_code import Line
from gpt2viz.arrays import Array
from gpt2viz.labels import pluralize, shorten
from gpt2viz.pictures.picture import Points
from gpt2viz.textbook import embeddings
from gpt2viz.textbook.embeddings import Near

#: Numbers of a vector that fit on screen.
_SHOWN = 8


def draw_tokens(book: Book) -> Iterator[Question]:
    """E2, with the sentence and model above."""
    trace, labels = book.view.trace, book.view.labels
    n_vocab, C = trace.config.vocab_size, trace.config.n_embd
    prose.markdown(
        "A model can't calculate with words. So the text is cut into **tokens**: words, or parts "
        "of words. Each token has a number, its place in the vocabulary."
        "\n\nThat number is only a name: token 20 is not four times token 5. So each token has a "
        "row in a table: a **vector**, a list of numbers that are learned. Looking a row up takes "
        "no arithmetic at all."
    )
    heading("E2")
    prose.markdown(
        f"The table of this model has **{n_vocab:,}** rows, one for each token of its vocabulary. "
        f"Each row holds **{C}** numbers. Your sentence has T = "
        f"{pluralize(len(labels), 'tokens')}; the first {min(C, _SHOWN)} numbers of each vector "
        "are drawn here. Point at a token above to see its place in the vocabulary."
    )
    rows = trace.stage("token_embedding")[0]
    shown = slice(0, _SHOWN)
    names = [f"{n}" for n in range(C)][shown]
    panel = vectors("token vectors", rows[:, shown], labels, names, TOKENS)
    picture(book, "token_vectors", [panel], height=120 + 26 * min(len(labels), 16))
    st.latex(rf"(B, T) = (1, {len(labels)}) \;\rightarrow\; (B, T, C) = (1, {len(labels)}, {C})")
    prose.caption(
        "A shape tells how long a table is along each of its axes. B is how many texts are read "
        "at once (a batch), T how many tokens each has, and C how many channels: the numbers of "
        "one vector."
    )
    code(Line(trace, "token_embedding"))
    yield from _token_questions(trace.token_ids, labels, rows)
    draw_plane(book)


def _token_questions(ids: Sequence[int], labels: Sequence[str], rows: Array) -> list[Question]:
    """``rows`` (T, C) are the tokens' vectors."""
    twice = next((n for n, token in enumerate(ids) if token in ids[:n]), None)
    same = twice is not None and np.array_equal(rows[twice], rows[ids.index(ids[twice])])
    return [
        Question(
            "tokens_shape",
            "A batch of 2 texts of 4 tokens goes through a table with 3 numbers per row. What is "
            "the shape of what comes out?",
            "A row takes the place of each id. What does that add to the shape (B, T)?",
            "Each id is replaced by a row: one more axis, as long as a row.",
            answer="(2, 4, 3)",
        ),
        Question(
            "tokens_twice",
            "Type a sentence in which a token comes **twice**, and compare its two rows.",
            "A word with a space before it and the same word without one are two tokens. Which "
            "word of a sentence has none before it?",
            "The rows are equal to the last digit. Whatever tells the two apart must come later.",
            done=same,
            note=_two_forms(labels) if not same else "",
        ),
    ]


def _two_forms(labels: Sequence[str]) -> str:
    """A note on a word that is there in two forms, each a token of its own."""
    plain = [label.strip("· ").casefold() for label in labels]
    if len(set(plain)) == len(plain):
        return ""
    return (
        "A word comes twice, but as two different tokens: with and without a space, or in capitals."
    )


def draw_order(book: Book) -> list[Question]:
    """E3."""
    prose.markdown(
        "The table gives a token the same row wherever it stands. “crane ate fish” and “fish ate "
        "crane” are the same three vectors, in another order. Later, vectors of a sentence are "
        "added up, and a sum does not depend on the order."
        "\n\nSo GPT-2 is told outright where each token stands. Every **position** has a learned "
        "vector too, and it is added to the word's vector."
    )
    heading("E3")
    words_in, positions = _order_tables()
    on = st.toggle("Add the position vectors", **address.switch(parameters.ORDER_ON))
    added = positions if on else np.zeros_like(positions)
    both = (0, 1, 2), (2, 1, 0)
    sums = [embeddings.in_order(order, added, words_in) for order in both]
    titles = [" ".join(embeddings.WORDS[n] for n in order) for order in both]
    panels = [
        vectors(title, x, embeddings.WORDS, PLANE, TOKENS)
        for title, x in zip(titles, sums, strict=True)
    ]
    prose.markdown("What the model reads for each word, in either sentence:")
    picture(book, "order_sums", panels, height=240)
    st.latex(r"x_n = \text{word} + \text{position}_n")
    prose.caption(
        "$x_n$ is the vector that goes into attention at position n; the first position is 0. "
        "Each vector has two numbers here, x₁ and x₂. The next chapter says what attention is."
    )
    for n, name in ((0, "first"), (2, "last")):
        total = equals(words_in[0].astype(float) + added[n])
        st.latex(rf"\text{{crane, {name}: }} {given(words_in[0])} + {given(added[n])} {total}")
    gap = float((sums[0] - sums[1]).abs().max())
    prose.markdown(f"Largest difference between the two sentences, rounded: **{gap:.4f}**")
    code(embeddings.look_up, embeddings.add_positions, embeddings.in_order)
    prose.markdown(
        "GPT-2 has a vector for each of its 1,024 positions. A sentence of five tokens uses the "
        "first five; the others go unused."
        "\n\nIn shapes: the same position vectors, (T, C), are added to each of the B texts of a "
        "batch, (B, T, C). The axis that is missing is stretched to fit. This is called "
        "**broadcasting**."
    )
    return _order_questions(on, gap, bool(np.abs(positions[0] - positions[2]).max() < SAME))


def _order_tables() -> tuple[Array, Array]:
    """The vectors of the words and of the places, (3, 2) each, to be edited."""
    words = embeddings.WORDS
    columns = st.columns(2, gap="large")
    with columns[0]:
        words_in = table(
            parameters.ORDER_WORDS, "Word vectors", embeddings.WORD_VECTORS, words, PLANE
        )
    with columns[1]:
        positions = table(
            parameters.ORDER_PLACES,
            "Position vectors",
            embeddings.POSITION_VECTORS,
            ("position 0", "position 1", "position 2"),
            PLANE,
        )
    return words_in, positions


def _order_questions(on: bool, gap: float, ends_alike: bool) -> list[Question]:
    """``ends_alike`` tells that the first and the last position have equal vectors."""
    return [
        Question(
            "order_on",
            "Make “crane” and “fish” **differ** between the two sentences, by their positions.",
            "The words know nothing of their positions yet. What would tell them?",
            "Now each word is read together with its position.",
            done=on and gap > 1e-3,
        ),
        Question(
            "order_equal",
            "Leave the switch on, and make the sentences equal again by editing the **positions**.",
            "Which two positions are swapped when crane and fish trade places?",
            "“ate” stays where it is. With equal vectors for the first and last position, "
            "nothing tells who came first: position vectors help only where they differ.",
            done=on and ends_alike,
            note="These positions would do it. Switch them on." if ends_alike else "",
        ),
        Question(
            "order_shape",
            "Token vectors (2, 5, 3) and position vectors (5, 3) are added. What is the shape?",
            "The second is added to each text.",
            "The missing axis is stretched to fit: that is broadcasting.",
            answer="(2, 5, 3)",
        ),
    ]


#: Words that are drawn at most, and characters of a field.
_MOST, _LONGEST = 16, 120
#: Neighbours that are named of each word, and of a sum.
_NEAR, _NEAR_SUM = 3, 5
#: Tokens that a sum needs: three, and the one that is hoped for.
_SUM = 4

#: A word -> its token.
_Words = dict[str, int]


def draw_plane(book: Book) -> None:
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
        words = _typed_words("Words to draw", parameters.PLANE_WORDS, book)
    with right:
        terms = _typed_words("A sum: first − second + third, and the word hoped for",
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


def _typed_words(label: str, parameter: Text, book: Book) -> _Words:
    """The words of a field that are one token each, and a line about those that aren't."""
    typed = st.text_input(label, max_chars=_LONGEST, autocomplete="off", **address.text(parameter))
    words = list(dict.fromkeys(typed.replace(",", " ").split()))[:_MOST]
    ids = {word: embeddings.token_of(word, book.view.model.tokenizer) for word in words}
    if others := [word for word, id in ids.items() if id is None]:
        words_left_out = ", ".join(literal(shorten(word)) for word in others)
        prose.caption(f"Not one token in this model's vocabulary, so left out: {words_left_out}")
    return {word: id for word, id in ids.items() if id is not None}


def _plane(book: Book, words: _Words, terms: _Words) -> None:
    """The picture, and each word's nearest neighbours in the whole vocabulary."""
    table = embeddings.table_of(book.view.model)
    ids = list(words.values())
    seen_from = embeddings.plane(table[ids])
    points = np.asarray(embeddings.seen_in(seen_from, table[ids]))
    names = [shorten(word) for word in words]
    if terms:
        total = embeddings.sum_of(table, list(terms.values())[:3])[None]
        points = np.vstack([points, np.asarray(embeddings.seen_in(seen_from, total))])
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
    first, second = np.asarray(seen_from.share)
    prose.caption(
        f"The plane keeps {first:.0%} and {second:.0%} of how the words differ. What it leaves "
        "out can't be seen here: points that touch may lie far apart."
    )
    cosine = embeddings.cosines(table, table[ids])
    near = [embeddings.nearest(row, _NEAR, [id]) for row, id in zip(cosine, ids, strict=True)]
    output.table(
        {
            "word": list(words),
            "nearest, with the cosine": [_listed(book, neighbours) for neighbours in near],
        },
        "Nearest neighbours of the words",
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
    """The nearest tokens to a sum of three words, with those words and without them."""
    table = embeddings.table_of(book.view.model)
    *three, hoped = terms.values()
    first, *_, hoped_word = (literal(shorten(word)) for word in terms)
    total = embeddings.cosines(table, embeddings.sum_of(table, three)[None])[0]
    alone = embeddings.cosines(table, table[three[:1]])[0]
    rows = {
        "the sum": embeddings.nearest(total, _NEAR_SUM),
        "the sum, without the three words": embeddings.nearest(total, _NEAR_SUM, three),
        "the first word alone, without the three": embeddings.nearest(alone, _NEAR_SUM, three),
    }
    prose.markdown(
        f"If directions have a meaning, then **{literal(_written(terms))}** should lie near "
        f"**{hoped_word}**. {_verdict(rows['the sum'], three)}"
    )
    output.table(
        {"nearest to": list(rows), "with the cosine": [_listed(book, n) for n in rows.values()]},
        "Nearest neighbours of the sum",
    )
    ranks = [embeddings.rank(cosine, hoped, three) for cosine in (total, alone)]
    prose.markdown(
        f"Without the three words, **{hoped_word}** is at place **{ranks[0]:,}** of the sum's "
        f"neighbours. Of those of **{first}** alone it is at place {ranks[1]:,}. "
        f"{_gained(*ranks)}\n\n"
        "Demonstrations of such sums leave the three words out, often without a word about it. "
        "Much of what is left comes from words that were near from the start (Linzen 2016, "
        "*Issues in Evaluating Semantic Spaces Using Word Analogies*)."
    )
    code(embeddings.sum_of, embeddings.table_of, embeddings.cosines, embeddings.nearest,
         embeddings.rank)  # fmt: skip


def _verdict(near: Sequence[Near], three: Collection[int]) -> str:
    """A sentence on the sum's nearest neighbour."""
    if near[0].id in three:
        return "What really comes out is nearest to **one of the three words themselves**."
    return "What really comes out is nearest to a word other than the three."


def _gained(of_sum: int, of_first: int) -> str:
    """A sentence on the word hoped for, by its rank near the sum and near the first word."""
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
    return ", ".join(f"{names[token.id]} {token.cosine:.2f}" for token in near)
