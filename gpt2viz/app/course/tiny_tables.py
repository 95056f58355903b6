"""The tiny crane's tables as the reader has them: drawn where asked for, kept in the address."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course import tables
from gpt2viz.app.parameters import ListParam
from gpt2viz.arrays import Array
from gpt2viz.textbook.tiny_crane import CHANNELS, MADE, VOCABULARY, Head, Tables

#: The tables' numbers lie between −LARGEST and LARGEST, so that a pencil is still enough.
LARGEST = 10.0

_OUT = ("out 1", "out 2")
#: What both heads hand over, side by side.
FOUND = ("0, out 1", "0, out 2", "1, out 1", "1, out 2")
#: The MLP's neurons, as long as nobody says what they find.
NEURONS = ("neuron 1", "neuron 2", "neuron 3")


class _Table(NamedTuple):
    """What the address calls a table, its title, what it held at first, and its axes."""

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


_TABLES: Mapping[str, _Table] = {
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
        """Whether none of these tables was changed."""
        return not self.edited & set(names)


def read() -> Mine:
    """The tables that the address asks for."""
    now = {name: tables.numbers(one.parameter, one.made, LARGEST) for name, one in _TABLES.items()}
    edited = {name for name, one in _TABLES.items() if not _same(now[name], one.made)}
    heads = (
        Head(now["q0"], now["k0"], now["v0"]),
        Head(now["q1"], now["k1"], now["v1"]),
    )
    widen, bias = now["widen"][:, :-1], now["widen"][:, -1]
    found = Tables(now["tokens"], now["positions"], heads, now["merge"], widen, bias, now["back"])
    return Mine(found, frozenset(edited))


def _same(one: Array, other: ArrayLike) -> bool:
    return bool(np.array_equal(one, np.asarray(other, np.float32)))


def fields(*names: str) -> None:
    """Draw tables whose numbers can be changed, one below the other."""
    for name in names:
        one = _TABLES[name]
        tables.table(one.parameter, one.title, one.made, one.rows, one.columns, LARGEST)


def tell_edited(mine: Mine, used: Collection[str], here: Collection[str]) -> None:
    """Say which tables of those ``used`` were changed elsewhere, with a way back.

    Those ``here`` are drawn, each with a way back of its own.
    """
    elsewhere = [_TABLES[name] for name in used if name in mine.edited and name not in here]
    if not elsewhere:
        return
    titles = ", ".join(f"**{one.title}**" for one in elsewhere)
    prose.caption(f"Worked out from numbers that you changed in other chapters: {titles}.")
    st.button(
        "Back to the tiny crane's own numbers",
        key="tiny_reset",
        icon=":material/undo:",
        type="tertiary",
        on_click=_back,
    )


def _back() -> None:
    for one in _TABLES.values():
        address.put(one.parameter, ())
