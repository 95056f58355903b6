"""The story: the tiny crane reads one sentence, a step in each chapter, and the real model too.

Each step begins with the numbers that the one before has left. The reader's tables are in the
address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.analysis.sampling import softmax
from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course import real_step, tables
from gpt2viz.app.course.parts import TOKENS, Book, code, pairs, picture, vectors
from gpt2viz.app.course.written import bracketed, brief, enough, equals, given, gives, spelled
from gpt2viz.app.parameters import ListParam
from gpt2viz.arrays import Array
from gpt2viz.pictures.panel import Panel
from gpt2viz.textbook import tiny_crane
from gpt2viz.textbook.tiny_crane import CHANNELS, MADE, SENTENCE, VOCABULARY, Head, Reading, Tables

#: The tables' numbers lie between −LARGEST and LARGEST, so that a pencil is still enough.
LARGEST = 10.0

_OUT = ("out 1", "out 2")
#: What both heads hand over, side by side.
FOUND = ("0, out 1", "0, out 2", "1, out 1", "1, out 2")
#: The MLP's neurons, as long as nobody says what they find.
NEURONS = ("neuron 1", "neuron 2", "neuron 3")


class _Table(NamedTuple):
    """A table that can be edited: its parameter, title, first numbers and axes."""

    parameter: ListParam
    title: str
    made: ArrayLike
    rows: Sequence[str]
    columns: Sequence[str]


def _of_head(letter: str, head: int, parameter: ListParam) -> _Table:
    made = getattr(MADE.heads[head], letter)
    title = f"W_{letter.upper()}"
    if head:  # the chapter of head 0 comes before there are others
        title += f" of head {head}"
    return _Table(parameter, title, made, _OUT, CHANNELS)


_EDITABLE: Mapping[str, _Table] = {
    "tokens": _Table(parameters.TINY_WORDS, "Token table", MADE.tokens, VOCABULARY, CHANNELS),
    "positions": _Table(
        parameters.TINY_PLACES, "Position vectors", MADE.positions, "0123", CHANNELS
    ),
    "q0": _of_head("q", 0, parameters.TINY_Q0),
    "k0": _of_head("k", 0, parameters.TINY_K0),
    "v0": _of_head("v", 0, parameters.TINY_V0),
    "q1": _of_head("q", 1, parameters.TINY_Q1),
    "k1": _of_head("k", 1, parameters.TINY_K1),
    "v1": _of_head("v", 1, parameters.TINY_V1),
    "merge": _Table(parameters.TINY_MERGE, "W_O", MADE.merge, CHANNELS, FOUND),
    "widen": _Table(
        parameters.TINY_WIDEN,
        "Into the middle",
        np.column_stack([np.asarray(MADE.widen), np.asarray(MADE.bias)]),
        NEURONS,
        (*CHANNELS, "bias"),
    ),
    "back": _Table(parameters.TINY_BACK, "And back", MADE.back, CHANNELS, NEURONS),
}


class Mine(NamedTuple):
    """The tables with all that the reader changed, and the names of those that were changed."""

    tables: Tables
    edited: frozenset[str]

    def as_made(self, *names: str) -> bool:
        """True where none of these tables was changed."""
        return not self.edited & set(names)


def read_tables() -> Mine:
    """The tables that the address asks for."""
    now = {
        name: tables.numbers(editable.parameter, editable.made, LARGEST)
        for name, editable in _EDITABLE.items()
    }
    edited = {name for name, editable in _EDITABLE.items() if not _same(now[name], editable.made)}
    heads = (
        Head(now["q0"], now["k0"], now["v0"]),
        Head(now["q1"], now["k1"], now["v1"]),
    )
    widen, bias = now["widen"][:, :-1], now["widen"][:, -1]
    edited_tables = Tables(
        now["tokens"], now["positions"], heads, now["merge"], widen, bias, now["back"]
    )
    return Mine(edited_tables, frozenset(edited))


def _same(table: Array, other: ArrayLike) -> bool:
    return bool(np.array_equal(table, np.asarray(other, np.float32)))


def fields(*names: str) -> None:
    """Draw tables whose numbers can be changed, one below the other."""
    for name in names:
        editable = _EDITABLE[name]
        tables.table(
            editable.parameter,
            editable.title,
            editable.made,
            editable.rows,
            editable.columns,
            LARGEST,
        )


def tell_edited(mine: Mine, used: Collection[str], here: Collection[str]) -> None:
    """Say which tables of those ``used`` were changed elsewhere, with a way back.

    Those ``here`` are drawn, each with a way back of its own.
    """
    elsewhere = [_EDITABLE[name] for name in used if name in mine.edited and name not in here]
    if not elsewhere:
        return
    titles = ", ".join(f"**{editable.title}**" for editable in elsewhere)
    prose.caption(f"Worked out from numbers that you changed in other chapters: {titles}.")
    st.button(
        "Back to the tiny crane's own numbers",
        key="tiny_reset",
        icon=":material/undo:",
        type="tertiary",
        on_click=_back,
    )


def _back() -> None:
    for editable in _EDITABLE.values():
        address.put(editable.parameter, ())


#: The place of "fish", which sees the whole sentence, with the mask and without.
_FISH = 3
#: The channels in formulas.
_IN_LATEX = (r"\text{thing}", r"\text{deed}", r"\text{hand}_\rightarrow", r"\text{hand}_\uparrow")


def tell(book: Book) -> None:
    """Draw a chapter's step of the tiny crane, and the same step in the real model."""
    chapter = book.chapter
    st.subheader("The tiny crane", anchor="tiny")
    mine = read_tables()
    tell_edited(mine, _used(chapter), _TABLES[chapter])
    _STEPS[chapter](book, tiny_crane.read(mine.tables), mine)
    code(tiny_crane.read, tiny_crane.look)
    st.subheader("The same step in the real model", anchor="real")
    real_step.STEPS[chapter](book)


def _used(chapter: str) -> list[str]:
    """The tables that a chapter's step rests on: its own and those of all steps before."""
    names = list(_STEPS)
    last = "by-hand" if chapter == "crane" else chapter  # which shows the tables a chapter later
    return [table for name in names[: names.index(last) + 1] for table in _TABLES[name]]


def _by_token(title: str, values: ArrayLike, columns: Sequence[str] = CHANNELS) -> Panel:
    """A panel with a row for each token of the sentence."""
    return vectors(title, values, SENTENCE, columns, TOKENS)


def _tokens(book: Book, crane: Reading, mine: Mine) -> None:
    prose.markdown(
        "One sentence goes through the chapters to come: **A crane ate fish**. A tiny model reads "
        "it, with numbers that you can follow with a pencil. Each chapter takes it one step "
        "further, until the model says what comes next."
        "\n\nIt knows five tokens, and its vectors have four numbers. Nobody trained it: its "
        "tables were made by hand. The first number says how much of a thing a token is, the "
        "second how much of a deed. The other two wait for the next chapter. You can change "
        "any number. Then the story goes on with yours."
    )
    left, right = st.columns(2, gap="medium")
    with left:
        fields("tokens")
    with right:
        picture(book, "tiny_tokens", [_by_token("token vectors", crane.tokens)], height=230)
    st.latex(
        rf"\text{{{' '.join(SENTENCE)}}} \;\rightarrow\; {given(tiny_crane.IDS)} \qquad "
        rf"\text{{fish}} = \text{{row }} 3 = {given(crane.tokens[_FISH])}"
    )
    prose.caption("In a trained model nobody has said what a number stands for.")


def _order(book: Book, crane: Reading, mine: Mine) -> None:
    turns = (
        "Here each position's vector is the hand of a clock. It points up at first, and turns on "
        "by a quarter with each token. Added to the token's vector, it fills the last two numbers."
    )
    added = "Each position has a vector of its own, which is added to the token's."
    prose.markdown(turns if mine.as_made("tokens", "positions") else added)
    left, right = st.columns([2, 3], gap="medium")
    with left:
        fields("positions")
    with right:
        panels = [_by_token("token vectors", crane.tokens), _by_token("their sum x", crane.x)]
        picture(book, "tiny_order", panels, height=210)
    both = f"{given(crane.tokens[_FISH])} + {given(crane.positions[_FISH])}"
    st.latex(rf"\text{{fish: }} {both} {gives(crane.x[_FISH])}")


def _crane(book: Book, crane: Reading, mine: Mine) -> None:
    head = crane.free
    who = mine.as_made("tokens", "positions", "q0", "k0")
    asks = (
        "The last word, **fish**, looks for whoever did something to it. Its query is thing plus "
        "deed, written twice. A key is thing, and −2 times deed. A value is simply the first two "
        "numbers."
    )
    alone = "Let us follow the last word, **fish**. Each word has a query, a key and a value."
    as_told = who and mine.as_made("v0")
    prose.markdown(f"{asks if as_told else alone} The next chapter has the tables that do this.")
    panels = [_by_token("their sum x", crane.x)]
    panels += [
        _by_token(f"{name} of two numbers", part, ("1", "2"))
        for name, part in zip(("queries", "keys", "values"), (head.q, head.k, head.v), strict=True)
    ]
    picture(book, "tiny_qkv", panels, height=210)
    q = np.asarray(head.q[_FISH])
    for word, k, score in zip(SENTENCE, np.asarray(head.k), head.scores[_FISH], strict=True):
        n = enough(np.stack([q, k]), lambda both: both[0] @ both[1], score)
        terms = " + ".join(
            rf"{bracketed(brief(a, n))} \cdot {bracketed(brief(b, n))}"
            for a, b in zip(q, k, strict=True)
        )
        st.latex(rf"\text{{fish and {word}: }} {terms} {gives(score)}")
    best = _highest(head.scores[_FISH], SENTENCE)
    why = ": it is a thing, and no deed" if who else ""
    prose.markdown(f"{_all(best)} {'fits' if len(best) == 1 else 'fit'} best{why}.")


def _by_hand(book: Book, crane: Reading, mine: Mine) -> None:
    head = crane.free
    prose.markdown(
        "These tables made the queries, keys and values. Each row says how much each of the four "
        "numbers of x counts. A query has two numbers, so $h_s = 2$."
    )
    _side_by_side("q0", "k0", "v0")
    scaled, weights, values = (
        np.asarray(part, np.float64)
        for part in (head.scaled_scores[_FISH], head.weights[_FISH], head.v)
    )
    n = enough(weights, lambda w: w @ values, head.output[_FISH])
    m = enough(scaled, softmax, weights, n)
    x, scores, w_q = crane.x[_FISH], head.scores[_FISH], np.asarray(mine.tables.heads[0].q)
    digits = enough(x, lambda x: w_q @ x, head.q[_FISH])
    st.latex(rf"q = {brief(x, digits)}\,W_Q^\top {gives(head.q[_FISH])}")
    digits = enough(scores, lambda s: s / 2**0.5, scaled, m)
    st.latex(rf"q K^\top / \sqrt{{2}} = {brief(scores, digits)} / \sqrt{{2}} {equals(scaled, m)}")
    st.latex(rf"\text{{softmax}} {equals(weights, n)}")
    st.latex(rf"\text{{mixture: weights}} \cdot V {equals(head.output[_FISH])}")
    best = _highest(weights, SENTENCE)
    share = float(weights.max() * len(best))
    much = "nearly all" if share > 0.9 else "more than half" if share > 0.5 else "the largest part"
    prose.markdown(f"So “fish” takes {much} of its mixture from {_all(best)}.")


def _mask(book: Book, crane: Reading, mine: Mine) -> None:
    head = crane.heads[0]
    hidden = head.masked_scores.isneginf()
    prose.markdown(
        "Now all four words ask, and the mask hides the later ones. “fish” is last and sees them "
        "all, so its row is the one of the chapter before. “A” sees nothing but itself."
    )
    panels = [
        pairs("scaled scores", head.scaled_scores, SENTENCE, "score", hidden),
        pairs("weights", head.weights, SENTENCE, "attention weight", hidden),
    ]
    left, right = st.columns(2, gap="medium")
    with left:
        picture(book, "tiny_scores", panels[:1], height=270)
    with right:
        picture(book, "tiny_weights", panels[1:], "unit", height=270)
    for word, output in zip(SENTENCE, head.output, strict=True):
        st.latex(rf"\text{{{word}: weights}} \cdot V {equals(output)}")


def _heads(book: Book, crane: Reading, mine: Mine) -> None:
    back = (
        ", and looks **one word back**. Its query is the clock hand turned back by a quarter, so "
        "it fits the key before"
    )
    looks_back = mine.as_made("tokens", "positions", "q1", "k1")
    keeps = " It keeps half the thing that head 0 found, and half the deed of head 1."
    as_words = mine.as_made("v0", "v1")
    prose.markdown(
        f"All this was one head. The second has tables of its own{back if looks_back else ''}."
        "\n\nSide by side, the outputs of the two are four numbers. $W_O$ makes of them what "
        f"attention adds.{keeps if as_words and mine.as_made('merge') else ''}"
    )
    _side_by_side("q1", "k1", "v1", "merge")
    hidden = crane.heads[0].masked_scores.isneginf()
    looks = [
        pairs(f"weights of head {n}", head.weights, SENTENCE, "attention weight", hidden)
        for n, head in enumerate(crane.heads)
    ]
    picture(book, "tiny_heads", looks, "unit", height=250)
    four = ("0: thing", "0: deed", "1: thing", "1: deed") if as_words else FOUND
    panels = [
        _by_token("outputs, side by side", crane.merged, four),
        _by_token("what attention adds", crane.attention),
    ]
    picture(book, "tiny_merged", panels, height=210)
    merged, table = np.asarray(crane.merged[_FISH], float), np.asarray(mine.tables.merge)
    n = enough(merged, lambda z: z @ table.T, crane.attention[_FISH])
    st.latex(rf"\text{{fish, side by side}} {equals(merged, n)}")
    st.latex(rf"\cdot\, W_O^\top {equals(crane.attention[_FISH])}")


def _mlp(book: Book, crane: Reading, mine: Mine) -> None:
    named = mine.edited <= {"back"}
    neurons = ("no deed", "deed", "both") if named else NEURONS
    meanings = (
        " One is above 0 for a thing that has no deed yet, one for a deed, one for a thing that "
        "has its deed."
    )
    prose.markdown(
        "What attention adds is added to x. Then each word works alone, with three numbers in the "
        f"middle, or **neurons**.{meanings if named else ''}"
        "\n\nReLU turns each number below 0 into 0. GPT-2 has four times as many neurons as "
        "channels, and uses GELU."
    )
    _side_by_side("widen", "back")
    first = [
        _by_token("x + attention", crane.mid),
        _by_token("in the middle", crane.widened, neurons),
    ]
    picture(book, "tiny_mlp", first, height=210)
    then = [
        _by_token("after ReLU", crane.bent, neurons),
        _by_token("what the MLP adds", crane.mlp),
    ]
    picture(book, "tiny_mlp_adds", then, height=210)
    _neurons_of_fish(crane, mine)


def _neurons_of_fish(crane: Reading, mine: Mine) -> None:
    """The sums of the neurons that are above 0, and what they add together."""
    widen, bias, back = (
        np.asarray(part, np.float64)
        for part in (mine.tables.widen, mine.tables.bias, mine.tables.back)
    )
    bent = np.asarray(crane.bent[_FISH], np.float64)
    active = np.flatnonzero(bent)
    n = enough(bent, lambda h: back @ h, crane.mlp[_FISH])
    m = enough(crane.mid[_FISH], lambda z: widen @ z + bias, crane.widened[_FISH], n)
    st.latex(rf"\text{{fish: }} x {equals(crane.mid[_FISH], m)}")
    for neuron in active:
        st.latex(rf"{_combined(widen[neuron], bias[neuron])} {equals(bent[neuron], n)}")
    added = " + ".join(
        rf"{spelled(bent[neuron_id], n)} \cdot {given(back[:, neuron_id])}" for neuron_id in active
    )
    if added:
        st.latex(rf"\text{{added: }} {added} {equals(crane.mlp[_FISH])}")
    else:
        prose.markdown("For “fish” no neuron is above 0, so the MLP adds nothing.")


def _combined(row: ArrayLike, bias: float) -> str:
    """A neuron's sum in LaTeX, without what counts 0 times."""
    terms = ""
    for number, channel in zip(np.ravel(row), _IN_LATEX, strict=True):
        if number:
            times = "" if abs(number) == 1 else rf"{given(abs(number))} \cdot "
            terms += f"{' - ' if number < 0 else ' + '}{times}{channel}"
    if bias or not terms:
        terms += f"{' - ' if bias < 0 else ' + '}{given(abs(bias))}"
    return terms.removeprefix(" + ").strip()


def _residual(book: Book, crane: Reading, mine: Mine) -> None:
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
    *things, total = (part[0] for part in rows)
    n = enough(things, np.sum, total)
    added = " + ".join(bracketed(spelled(thing, n)) for thing in things)
    st.latex(rf"\text{{thing: }} {added} {equals(total)}")


def _next_word(book: Book, crane: Reading, mine: Mine) -> None:
    chances, table = np.asarray(crane.probabilities), np.asarray(mine.tables.tokens)
    only = (
        ""
        if table[:, 2:].any()
        else (" The clock's numbers are 0 there, so only thing and deed count.")
    )
    prose.markdown(f"The last vector of “fish” meets each row of the token table.{only}")
    last = np.asarray(crane.end[_FISH], float)
    n = enough(last, lambda z: table @ z, crane.logits[_FISH])
    st.latex(rf"\text{{fish, at the end}} {equals(last, n)}")
    panels = [
        vectors("all logits", crane.logits, SENTENCE, VOCABULARY, ("token", "next word")),
        vectors("all probabilities", chances, SENTENCE, VOCABULARY, ("token", "next word")),
    ]
    left, right = st.columns(2, gap="medium")
    with left:
        picture(book, "tiny_logits", panels[:1], height=230)
    with right:
        picture(book, "tiny_chances", panels[1:], "unit", height=230)
    best = [_highest(row, VOCABULARY) for row in chances]
    guesses = ", ".join(
        f"{_all(next)} after “{word}”" for word, next in zip(SENTENCE, best, strict=True)
    )
    prose.markdown(
        f"It expects {guesses}. After “fish”, {_all(best[_FISH])} "
        f"{'gets' if len(best[_FISH]) == 1 else 'each get'} **{chances[_FISH].max():.1%}**. "
        "That is the whole way, from text to the next word."
    )


def _side_by_side(*names: str) -> None:
    """Tables whose numbers can be changed, two in a row."""
    for n in range(0, len(names), 2):
        for column, name in zip(st.columns(2, gap="medium"), names[n : n + 2], strict=False):
            with column:
                fields(name)


def _highest(values: ArrayLike, names: Sequence[str]) -> list[str]:
    """The name of the highest value, or of all that are as high."""
    numbers = np.asarray(values, np.float64)
    return [name for name, number in zip(names, numbers, strict=True) if number == numbers.max()]


def _all(names: Sequence[str]) -> str:
    """“A”, “crane” and “ate”."""
    *others, last = (f"“{name}”" for name in names)
    return f"{', '.join(others)} and {last}" if others else last


#: The tables that a chapter's step shows.
_TABLES: Mapping[str, tuple[str, ...]] = {
    "tokens": ("tokens",),
    "order": ("positions",),
    "crane": (),
    "by-hand": ("q0", "k0", "v0"),
    "mask": (),
    "heads": ("q1", "k1", "v1", "merge"),
    "mlp": ("widen", "back"),
    "residual": (),
    "next-word": (),
}
_STEPS: Mapping[str, Callable[[Book, Reading, Mine], None]] = {
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
