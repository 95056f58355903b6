"""The story: the tiny crane reads one sentence, a step in each chapter, and the real model too.

Each step begins with the numbers that the one before has left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.analysis.sampling import softmax
from gpt2viz.app import prose
from gpt2viz.app.course import real_step
from gpt2viz.app.course.parts import TOKENS, Book, code, pairs, picture, vectors
from gpt2viz.app.course.written import enough, equals, given, spelled
from gpt2viz.pictures.panel import Panel
from gpt2viz.textbook import tiny_crane
from gpt2viz.textbook.tiny_crane import CHANNELS, SENTENCE, VOCABULARY, Reading

#: The place of "fish", which sees the whole sentence, with the mask and without.
_FISH = 3
_NEURONS = ("no deed", "deed", "both")


def tell(chapter: str, book: Book) -> None:
    """Draw a chapter's step of the tiny crane, and the same step in the real model."""
    st.subheader("The tiny crane", anchor="tiny")
    _STEPS[chapter](book, tiny_crane.read())
    code(tiny_crane.read, tiny_crane.look)
    st.subheader("The same step in the real model", anchor="real")
    real_step.STEPS[chapter](book)


def _by_token(title: str, values: ArrayLike, columns: Sequence[str] = CHANNELS) -> Panel:
    """A panel with a row for each token of the sentence."""
    return vectors(title, values, SENTENCE, columns, TOKENS)


def _tokens(book: Book, crane: Reading) -> None:
    prose.markdown(
        "One sentence goes through the chapters to come: **A crane ate fish**. A tiny model reads "
        "it, with numbers that you can follow with a pencil. Each chapter takes it one step "
        "further, until the model says what comes next."
        "\n\nIt knows five tokens, and its vectors have four numbers. Nobody trained it: its "
        "tables were made by hand. The first number says how much of a thing a token is, the "
        "second how much of a deed. The other two wait for the next chapter."
    )
    table = vectors("token table", tiny_crane.TOKENS, VOCABULARY, CHANNELS, TOKENS)
    picture(book, "tiny_tokens", [table, _by_token("token vectors", crane.tokens)], height=230)
    st.latex(
        rf"\text{{{' '.join(SENTENCE)}}} \;\rightarrow\; {given(tiny_crane.IDS)} \qquad "
        rf"\text{{fish}} = \text{{row }} 3 = {given(crane.tokens[_FISH])}"
    )
    prose.caption("In a trained model nobody has said what a number stands for.")


def _order(book: Book, crane: Reading) -> None:
    prose.markdown(
        "Here each position's vector is the hand of a clock. It points up at first, and turns on "
        "by a quarter with each token. Added to the token's vector, it fills the last two numbers."
    )
    panels = [
        _by_token("token vectors", crane.tokens),
        vectors("position vectors", crane.positions, "0123", CHANNELS, ("position", "dimension")),
        _by_token("their sum x", crane.x),
    ]
    picture(book, "tiny_order", panels, height=210)
    both = f"{given(crane.tokens[_FISH])} + {given(crane.positions[_FISH])}"
    st.latex(rf"\text{{fish: }} {both} = {given(crane.x[_FISH])}")


def _crane(book: Book, crane: Reading) -> None:
    found = crane.free
    prose.markdown(
        "The last word, **fish**, looks for whoever did something to it. Its query is thing plus "
        "deed, written twice. A key is thing, and −2 times deed. A value is simply the first two "
        "numbers. The next chapter has the tables that do this."
    )
    panels = [_by_token("their sum x", crane.x)]
    panels += [
        _by_token(f"{name} of two numbers", part, ("1", "2"))
        for name, part in zip(
            ("queries", "keys", "values"), (found.q, found.k, found.v), strict=True
        )
    ]
    picture(book, "tiny_qkv", panels, height=210)
    q = np.asarray(found.q[_FISH])
    for word, k, score in zip(SENTENCE, np.asarray(found.k), found.scores[_FISH], strict=True):
        terms = " + ".join(rf"{given(a)} \cdot ({given(b)})" for a, b in zip(q, k, strict=True))
        st.latex(rf"\text{{fish and {word}: }} {terms} = {given(score)}")
    prose.markdown("“crane” fits best: it is a thing, and no deed.")


def _by_hand(book: Book, crane: Reading) -> None:
    found, names = crane.free, ("out 1", "out 2")
    prose.markdown(
        "These tables made the queries, keys and values. Each row of a table says how often each "
        "of the four numbers of x counts. A query has two numbers, so $h_s = 2$."
    )
    both = zip(("W_Q", "W_K", "W_V"), tiny_crane.WHO, strict=True)
    panels = [vectors(name, table, names, CHANNELS, ("", "dimension")) for name, table in both]
    picture(book, "tiny_tables", panels, height=170)
    scaled, weights, values = (
        np.asarray(part, np.float64)
        for part in (found.scaled_scores[_FISH], found.weights[_FISH], found.v)
    )
    n = enough(weights, lambda w: w @ values, found.output[_FISH])
    m = enough(scaled, softmax, weights, n)
    st.latex(rf"q = {given(crane.x[_FISH])}\,W_Q^\top = {given(found.q[_FISH])}")
    st.latex(
        rf"q K^\top / \sqrt{{2}} = {given(found.scores[_FISH])} / \sqrt{{2}} {equals(scaled, m)}"
    )
    st.latex(rf"\text{{softmax}} {equals(weights, n)}")
    st.latex(rf"\text{{mixture: weights}} \cdot V {equals(found.output[_FISH])}")
    prose.markdown("So “fish” takes nearly all of its mixture from “crane”.")


def _mask(book: Book, crane: Reading) -> None:
    found = crane.heads[0]
    hidden = found.masked_scores.isneginf()
    prose.markdown(
        "Now all four words ask, and the mask hides the later ones. “fish” is last and sees them "
        "all, so its row is the one of the chapter before. “A” sees nothing but itself."
    )
    panels = [
        pairs("scaled scores", found.scaled_scores, SENTENCE, "score", hidden),
        pairs("weights", found.weights, SENTENCE, "attention weight", hidden),
    ]
    left, right = st.columns(2, gap="medium")
    with left:
        picture(book, "tiny_scores", panels[:1], height=270)
    with right:
        picture(book, "tiny_weights", panels[1:], "unit", height=270)
    for word, output in zip(SENTENCE, found.output, strict=True):
        st.latex(rf"\text{{{word}: weights}} \cdot V {equals(output)}")


def _heads(book: Book, crane: Reading) -> None:
    prose.markdown(
        "All this was one head. The second has tables of its own, and looks **one word back**. Its "
        "query is the clock hand turned back by a quarter, so it fits the key before."
        "\n\nSide by side, the outputs of the two are four numbers. $W_O$ keeps half the thing "
        "that head 0 found, and half the deed of head 1."
    )
    hidden = crane.heads[0].masked_scores.isneginf()
    looks = [
        pairs(f"weights of head {n}", head.weights, SENTENCE, "attention weight", hidden)
        for n, head in enumerate(crane.heads)
    ]
    picture(book, "tiny_heads", looks, "unit", height=250)
    four = ("0: thing", "0: deed", "1: thing", "1: deed")
    panels = [
        _by_token("outputs, side by side", crane.merged, four),
        _by_token("what attention adds", crane.attention),
    ]
    picture(book, "tiny_merged", panels, height=210)
    merged, table = np.asarray(crane.merged[_FISH], float), np.array(tiny_crane.MERGE)
    n = enough(merged, lambda z: z @ table.T, crane.attention[_FISH])
    st.latex(rf"\text{{fish, side by side}} {equals(merged, n)}")
    st.latex(rf"\cdot\, W_O^\top {equals(crane.attention[_FISH])}")


def _mlp(book: Book, crane: Reading) -> None:
    prose.markdown(
        "What attention adds is added to x. Then each word works alone, with three numbers in the "
        "middle, or **neurons**. One is above 0 for a thing that has no deed yet, one for a deed, "
        "one for a thing that has its deed."
        "\n\nReLU makes the others 0. GPT-2 has four times as many neurons as channels, and takes "
        "GELU."
    )
    first = [
        _by_token("x + attention", crane.mid),
        _by_token("in the middle", crane.widened, _NEURONS),
    ]
    picture(book, "tiny_mlp", first, height=210)
    then = [
        _by_token("after ReLU", crane.bent, _NEURONS),
        _by_token("what the MLP adds", crane.mlp),
    ]
    picture(book, "tiny_mlp_adds", then, height=210)
    bent, table = np.asarray(crane.bent[_FISH], float), np.array(tiny_crane.BACK)
    n = enough(bent, lambda h: h @ table.T, crane.mlp[_FISH])
    widen = np.array(tiny_crane.WIDEN)
    m = enough(crane.mid[_FISH], lambda z: z @ widen.T + tiny_crane.BIAS, crane.widened[_FISH], n)
    st.latex(rf"\text{{fish: }} x {equals(crane.mid[_FISH], m)}")
    third = crane.widened[_FISH, 2]
    st.latex(rf"\text{{thing}} + 2 \cdot \text{{deed}} - 6 {equals(third, n)}")
    st.latex(rf"\text{{times }} {given(table[:, 2])} {equals(crane.mlp[_FISH])}")


def _residual(book: Book, crane: Reading) -> None:
    prose.markdown(
        "Nothing was replaced on the way. All that was written for “fish” adds up to its last "
        "vector. The tiny crane has **no LayerNorm**, so that the sums stay easy."
    )
    parts = {
        "token": crane.tokens,
        "position": crane.positions,
        "attention": crane.attention,
        "MLP": crane.mlp,
        "sum": crane.end,
    }
    rows = [np.asarray(part[_FISH]) for part in parts.values()]
    panel = vectors("the stream of fish", rows, tuple(parts), CHANNELS, ("", "channel"))
    picture(book, "tiny_stream", [panel], height=240)
    added = " + ".join(f"({spelled(part[0])})" for part in rows[:-1])
    st.latex(rf"\text{{thing: }} {added} {equals(rows[-1][0])}")


def _next_word(book: Book, crane: Reading) -> None:
    found = np.asarray(crane.probabilities)
    best = [VOCABULARY[n] for n in found.argmax(axis=1)]
    prose.markdown(
        "The last vector of “fish” meets each row of the token table. The clock's numbers are 0 "
        "there, so only thing and deed count."
    )
    last = np.asarray(crane.end[_FISH], float)
    n = enough(last, lambda z: z @ np.array(tiny_crane.TOKENS).T, crane.logits[_FISH])
    st.latex(rf"\text{{fish, at the end}} {equals(last, n)}")
    panels = [
        vectors("all logits", crane.logits, SENTENCE, VOCABULARY, ("token", "next word")),
        vectors("all probabilities", found, SENTENCE, VOCABULARY, ("token", "next word")),
    ]
    left, right = st.columns(2, gap="medium")
    with left:
        picture(book, "tiny_logits", panels[:1], height=230)
    with right:
        picture(book, "tiny_chances", panels[1:], "unit", height=230)
    said = ", ".join(f"“{next}” after “{word}”" for word, next in zip(SENTENCE, best, strict=True))
    prose.markdown(
        f"It expects {said}. The full stop gets **{found[_FISH].max():.1%}**. That is the whole "
        "way, from text to the next word."
    )


_STEPS: Mapping[str, Callable[[Book, Reading], None]] = {
    "tokens": _tokens,
    "order": _order,
    "crane": _crane,
    "by-hand": _by_hand,
    "mask": _mask,
    "heads": _heads,
    "mlp": _mlp,
    "residual": _residual,
    "next-word": _next_word,
}
#: The chapters that tell it, in order.
CHAPTERS = tuple(_STEPS)
