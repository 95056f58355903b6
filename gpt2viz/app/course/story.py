"""The story: the tiny crane model reads one sentence, a step in each chapter, as the real one does.

Each step starts from the numbers of the step before. The tables that a reader edits are in the
address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.analysis.sampling import softmax
from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course.parts import TOKENS, Book, pairs, picture, vectors
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import (
    bracket,
    decimals,
    equals,
    equals_brief,
    latex,
    latex_brief,
    latex_decimals,
    product,
)
from gpt2viz.arrays import Array
from gpt2viz.labels import percent
from gpt2viz.pictures.panel import Panel
from gpt2viz.textbook import attention, tiny_crane
from gpt2viz.textbook.tiny_crane import CHANNELS, MADE, SENTENCE, VOCABULARY, Reading

#: The tables' numbers lie between −LARGEST and LARGEST, so that a reader can compute by hand.
LARGEST = 10.0

_OUT = ("out 1", "out 2")
#: The outputs of both heads, side by side.
HEAD_CHANNELS = ("0, out 1", "0, out 2", "1, out 1", "1, out 2")
#: The MLP's neurons, if edited tables give them no meaning.
NEURONS = ("neuron 1", "neuron 2", "neuron 3")


#: The chapter of head 0 comes before there are others, so its tables' titles name no head.
_EDITABLE: Mapping[str, Table] = {
    name: Table(parameter, title, MADE[name], rows, columns, LARGEST)
    for name, parameter, title, rows, columns in (
        ("tokens", parameters.TINY_WORDS, "Token table", VOCABULARY, CHANNELS),
        ("positions", parameters.TINY_PLACES, "Position vectors", "0123", CHANNELS),
        ("q0", parameters.TINY_Q0, "W_Q", _OUT, CHANNELS),
        ("k0", parameters.TINY_K0, "W_K", _OUT, CHANNELS),
        ("v0", parameters.TINY_V0, "W_V", _OUT, CHANNELS),
        ("q1", parameters.TINY_Q1, "W_Q of head 1", _OUT, CHANNELS),
        ("k1", parameters.TINY_K1, "W_K of head 1", _OUT, CHANNELS),
        ("v1", parameters.TINY_V1, "W_V of head 1", _OUT, CHANNELS),
        ("merge", parameters.TINY_MERGE, "W_O", CHANNELS, HEAD_CHANNELS),
        ("widen", parameters.TINY_WIDEN, "Into the hidden layer", NEURONS, (*CHANNELS, "bias")),
        ("back", parameters.TINY_BACK, "And back", CHANNELS, NEURONS),
    )
}


#: The story's chapters, in order, and the tables that their steps show.
_BEFORE_THE_MASK = ("tokens", "order", "crane", "by-hand")
CHAPTERS = (*_BEFORE_THE_MASK, "mask", "heads", "mlp", "residual", "whole", "next-word", "project")
_SHOWN_IN: Mapping[str, tuple[str, ...]] = {
    "tokens": ("tokens",),
    "order": ("positions",),
    "by-hand": ("q0", "k0", "v0"),
    "heads": ("q1", "k1", "v1", "merge"),
    "mlp": ("widen", "back"),
    "project": tuple(_EDITABLE),
}


class Mine(NamedTuple):
    """The tables with the reader's changes."""

    tables: Mapping[str, Array]

    @property
    def edited(self) -> set[str]:
        """The names of the changed ones."""
        made = {name: np.asarray(table, np.float32) for name, table in MADE.items()}
        return {name for name in made if not np.array_equal(self.tables[name], made[name])}

    def is_unchanged(self, *names: str) -> bool:
        """Return whether none of these tables was changed."""
        return not self.edited & set(names)


def _run(book: Book) -> tuple[Reading, Mine]:
    """Return the tiny crane's run with the tables in the address, and these tables.

    Draws the names of changed tables that only other chapters show, with a button to reset them.
    """
    mine = Mine({name: editable.numbers() for name, editable in _EDITABLE.items()})
    elsewhere = [name for name in _tables_shown_elsewhere(book.chapter) if name in mine.edited]
    if elsewhere and not book.values.get("way_back"):
        book.values["way_back"] = True  # a chapter may call this twice
        titles = ", ".join(f"**{_EDITABLE[name].title}**" for name in elsewhere)
        prose.caption(f"Worked out from numbers that you changed: {titles}.")
        st.button(
            "Back to the tiny crane's own numbers",
            key="tiny_reset",
            icon=":material/undo:",
            type="tertiary",
            on_click=_reset,
        )
    return tiny_crane.run(mine.tables), mine


def _tables_shown_elsewhere(chapter: str) -> list[str]:
    """Return the tables that a chapter's step uses and only other chapters show."""
    last = "by-hand" if chapter == "crane" else chapter  # the next chapter shows crane's tables
    before = CHAPTERS[: CHAPTERS.index(last) + 1]
    return [name for at in before if at != chapter for name in _SHOWN_IN.get(at, ())]


def _reset() -> None:
    for editable in _EDITABLE.values():
        address.put(editable.parameter, ())


def _fields(chapter: str) -> None:
    """Draw the tables of a chapter's step, two in a row."""
    names = _SHOWN_IN[chapter]
    for n in range(0, len(names), 2):
        for column, name in zip(st.columns(2, gap="medium"), names[n : n + 2], strict=False):
            _EDITABLE[name].draw(column)


def _token_panel(title: str, values: ArrayLike, columns: Sequence[str] = CHANNELS) -> Panel:
    """Return a panel with a row for each token of the sentence."""
    return vectors(title, values, SENTENCE, columns, TOKENS)


#: The position of "fish", which sees the whole sentence, with the mask on or off.
_FISH = 3
#: The channels in formulas.
_IN_LATEX = (r"\text{thing}", r"\text{action}", r"\text{hand}_\rightarrow", r"\text{hand}_\uparrow")


def tokens(book: Book) -> dict[str, str]:
    """Draw the token table, and the rows that the sentence reads from it."""
    crane, _ = _run(book)
    left, right = st.columns(2, gap="medium")
    _EDITABLE["tokens"].draw(left)
    picture("tiny_tokens", [_token_panel("token vectors", crane.tokens)], height=230, slot=right)
    return {
        "sentence": " ".join(SENTENCE),
        "ids": latex(tiny_crane.IDS),
        "fish": latex(crane.tokens[_FISH]),
    }


def order(book: Book, text: str) -> dict[str, str]:
    """Draw the position vectors, and their sum with the tokens'."""
    crane, mine = _run(book)
    book.write(text, as_made=mine.is_unchanged("tokens", "positions"))
    left, right = st.columns([2, 3], gap="medium")
    _EDITABLE["positions"].draw(left)
    panels = [_token_panel("token vectors", crane.tokens), _token_panel("their sum x", crane.x)]
    picture("tiny_order", panels, height=210, slot=right)
    return {
        "token": latex(crane.tokens[_FISH]),
        "position": latex(crane.positions[_FISH]),
        "x": equals_brief(crane.x[_FISH]),
    }


def average(book: Book) -> None:
    """Draw the mean of each word and those before it: attention whose scores are all equal."""
    x = _run(book)[0].x
    steps = attention.attend(0 * x, x, x, causal=True)
    hidden = steps.masked_scores.isneginf()
    left, right = st.columns([2, 3], gap="medium")
    shares = pairs("equal shares", steps.weights, SENTENCE, "share", hidden)
    picture("tiny_shares", [shares], "unit", height=230, slot=left)
    panels = [_token_panel("their sum x", x), _token_panel("shares · x", steps.output)]
    picture("tiny_means", panels, height=210, slot=right)


def crane(book: Book, text: str) -> dict[str, Any]:
    """Draw the queries, keys and values, and the scores of "fish"."""
    crane, mine = _run(book)
    who, head = mine.is_unchanged("tokens", "positions", "q0", "k0"), crane.free
    book.write(text, who=who, as_told=who and mine.is_unchanged("v0"))
    panels = [_token_panel("their sum x", crane.x)]
    panels += [
        _token_panel(f"{name} of two numbers", part, ("1", "2"))
        for name, part in zip(("queries", "keys", "values"), (head.q, head.k, head.v), strict=True)
    ]
    picture("tiny_qkv", panels, height=210)
    q = np.asarray(head.q[_FISH])
    for word, k, score in zip(SENTENCE, np.asarray(head.k), head.scores[_FISH], strict=True):
        st.latex(rf"\text{{fish and {word}: }} {product(q, k, float(score))}")
    best = _highest_names(head.scores[_FISH], SENTENCE)
    return {"best": _quote(best), "one": len(best) == 1}


def by_hand(book: Book) -> dict[str, str]:
    """Draw the tables of one head, and compute the weights and output of "fish"."""
    crane, mine = _run(book)
    head = crane.free
    _fields(book.chapter)
    scaled, weights, values = (
        np.asarray(part, np.float64)
        for part in (head.scaled_scores[_FISH], head.weights[_FISH], head.v)
    )
    n = decimals(weights, lambda w: w @ values, head.output[_FISH])
    m = decimals(scaled, softmax, weights, n)
    x, scores, w_q = crane.x[_FISH], head.scores[_FISH], mine.tables["q0"]
    best = _highest_names(weights, SENTENCE)
    share = float(weights.max() * len(best))
    much = "nearly all" if share > 0.9 else "more than half" if share > 0.5 else "the largest part"
    return {
        "x": latex_brief(x, decimals(x, lambda x: w_q @ x, head.q[_FISH])),
        "q": equals_brief(head.q[_FISH]),
        "scores": latex_brief(scores, decimals(scores, lambda s: s / 2**0.5, scaled, m)),
        "scaled": equals(scaled, m),
        "weights": equals(weights, n),
        "output": equals(head.output[_FISH]),
        "much": much,
        "best": _quote(best),
    }


def mask(book: Book) -> None:
    """Draw scores and weights of all words, with the mask on."""
    head = _run(book)[0].heads[0]
    hidden = head.masked_scores.isneginf()
    panels = [
        pairs("scaled scores", head.scaled_scores, SENTENCE, "score", hidden),
        pairs("weights", head.weights, SENTENCE, "attention weight", hidden),
    ]
    left, right = st.columns(2, gap="medium")
    picture("tiny_scores", panels[:1], height=270, slot=left)
    picture("tiny_weights", panels[1:], "unit", height=270, slot=right)
    for word, output in zip(SENTENCE, head.output, strict=True):
        st.latex(rf"\text{{{word}: weights}} \cdot V {equals(output)}")


def heads(book: Book, text: str) -> dict[str, str]:
    """Draw the second head's tables, both heads' weights, and what they add together."""
    crane, mine = _run(book)
    as_words = mine.is_unchanged("v0", "v1")
    book.write(
        text,
        looks_back=mine.is_unchanged("tokens", "positions", "q1", "k1"),
        keeps=as_words and mine.is_unchanged("merge"),
    )
    _fields(book.chapter)
    hidden = crane.heads[0].masked_scores.isneginf()
    weights = [
        pairs(f"weights of head {n}", head.weights, SENTENCE, "attention weight", hidden)
        for n, head in enumerate(crane.heads)
    ]
    picture("tiny_heads", weights, "unit", height=250)
    four = ("0: thing", "0: action", "1: thing", "1: action") if as_words else HEAD_CHANNELS
    panels = [
        _token_panel("outputs, side by side", crane.merged, four),
        _token_panel("what attention adds", crane.attention),
    ]
    picture("tiny_merged", panels, height=210)
    merged, table = np.asarray(crane.merged[_FISH], float), mine.tables["merge"]
    n = decimals(merged, lambda z: z @ table.T, crane.attention[_FISH])
    return {"merged": equals(merged, n), "attention": equals(crane.attention[_FISH])}


def mlp(book: Book, text: str) -> dict[str, Any]:
    """Draw the MLP's tables, its output for each word, and the neurons of "fish"."""
    crane, mine = _run(book)
    named = mine.edited <= {"back"}
    neurons = ("no action", "action", "both") if named else NEURONS
    book.write(text, named=named, as_made=not mine.edited)
    _fields(book.chapter)
    first = [
        _token_panel("x + attention", crane.mid),
        _token_panel("hidden layer", crane.widened, neurons),
    ]
    picture("tiny_mlp", first, height=210)
    second = [
        _token_panel("after ReLU", crane.bent, neurons),
        _token_panel("what the MLP adds", crane.mlp),
    ]
    picture("tiny_mlp_adds", second, height=210)
    return _neurons_of_fish(crane, mine)


def _neurons_of_fish(crane: Reading, mine: Mine) -> dict[str, Any]:
    """Write out the sums of the neurons above 0, and what they add together, if any."""
    widen, back = (mine.tables[name].astype(float) for name in ("widen", "back"))
    widen, bias = widen[:, :-1], widen[:, -1]
    bent = np.asarray(crane.bent[_FISH], np.float64)
    active = np.flatnonzero(bent)
    n = decimals(bent, lambda h: back @ h, crane.mlp[_FISH])
    m = decimals(crane.mid[_FISH], lambda z: widen @ z + bias, crane.widened[_FISH], n)
    st.latex(rf"\text{{fish: }} x {equals(crane.mid[_FISH], m)}")
    for neuron in active:
        st.latex(rf"{_neuron_sum(widen[neuron], bias[neuron])} {equals(bent[neuron], n)}")
    added = " + ".join(
        rf"{latex_decimals(bent[neuron_id], n)} \cdot {latex(back[:, neuron_id])}"
        for neuron_id in active
    )
    if added:
        st.latex(rf"\text{{added: }} {added} {equals(crane.mlp[_FISH])}")
    return {"active": added}


def _neuron_sum(row: ArrayLike, bias: float) -> str:
    """Return a neuron's sum in LaTeX, without terms whose weight is 0."""
    terms = ""
    for number, channel in zip(np.ravel(row), _IN_LATEX, strict=True):
        if number:
            times = "" if abs(number) == 1 else rf"{latex(abs(number))} \cdot "
            terms += f"{' - ' if number < 0 else ' + '}{times}{channel}"
    if bias or not terms:
        terms += f"{' - ' if bias < 0 else ' + '}{latex(abs(bias))}"
    return terms.removeprefix(" + ").strip()


def residual(book: Book) -> dict[str, str]:
    """Draw all vectors that are added to the stream of "fish", and their sum."""
    crane, _ = _run(book)
    parts = {
        "token": crane.tokens,
        "position": crane.positions,
        "attention": crane.attention,
        "MLP": crane.mlp,
        "sum": crane.end,
    }
    rows = [np.asarray(part[_FISH]) for part in parts.values()]
    panel = vectors("the stream of fish", rows, tuple(parts), CHANNELS, ("", "channel"))
    picture("tiny_stream", [panel], height=240)
    *things, total = (part[0] for part in rows)
    n = decimals(things, np.sum, total)
    added = " + ".join(bracket(latex_decimals(thing, n)) for thing in things)
    return {"added": added, "total": equals(total)}


def next_word(book: Book, text: str) -> dict[str, Any]:
    """Draw the logits and probabilities of every word after each, and return the predictions."""
    crane, mine = _run(book)
    chances, table = np.asarray(crane.probabilities), mine.tables["tokens"]
    book.write(text, clockless=not table[:, 2:].any())
    last = np.asarray(crane.end[_FISH], float)
    n = decimals(last, lambda z: table @ z, crane.logits[_FISH])
    st.latex(rf"\text{{fish, at the end}} {equals(last, n)}")
    names = ("token", "next word")
    left, right = st.columns(2, gap="medium")
    panel = vectors("all logits", crane.logits, SENTENCE, VOCABULARY, names)
    picture("tiny_logits", [panel], height=230, slot=left)
    panel = vectors("all probabilities", chances, SENTENCE, VOCABULARY, names)
    picture("tiny_chances", [panel], "unit", height=230, slot=right)
    best = [_highest_names(row, VOCABULARY) for row in chances]
    guesses = (f"{_quote(next)} after “{word}”" for word, next in zip(SENTENCE, best, strict=True))
    return {
        "guesses": ", ".join(guesses),
        "best": _quote(best[_FISH]),
        "one": len(best[_FISH]) == 1,
        "chance": percent(chances[_FISH].max(), 1),
    }


def project(book: Book, text: str) -> dict[str, Check]:
    """Draw all tables and the predictions; check whether the sentence restarts after "fish"."""
    crane, _ = _run(book)
    now, made = (
        [VOCABULARY[n] for n in reading.probabilities.argmax(dim=-1)]
        for reading in (crane, tiny_crane.run())
    )
    pairs = zip(SENTENCE, made, strict=True)
    book.write(text, guesses=", ".join(f"“{next}” after “{word}”" for word, next in pairs))
    panel = vectors(
        "all probabilities", crane.probabilities, SENTENCE, VOCABULARY, ("token", "next word")
    )
    picture("tiny_project", [panel], "unit", height=230)
    _fields(book.chapter)
    again, others = now[_FISH] == SENTENCE[0], now[:_FISH] == made[:_FISH]
    note = "It begins again, but another guess has changed." if again and not others else ""
    return {"project_again": Check(again and others, note)}


def _highest_names(values: ArrayLike, names: Sequence[str]) -> list[str]:
    """Return the names of the highest value, and of any equal to it."""
    numbers = np.asarray(values, np.float64)
    return [name for name, number in zip(names, numbers, strict=True) if number == numbers.max()]


def _quote(names: Sequence[str]) -> str:
    """Join names as “A”, “crane” and “ate”."""
    *others, last = (f"“{name}”" for name in names)
    return f"{', '.join(others)} and {last}" if others else last
