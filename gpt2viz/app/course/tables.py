"""Tables whose numbers can be edited; what was edited is in the address."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.app import address, prose
from gpt2viz.app.components.number_grid import number_fields
from gpt2viz.app.course.written import in_a_field, shortest
from gpt2viz.app.parameter import Listed
from gpt2viz.arrays import Array

#: Numbers that a table takes lie between −LARGEST and LARGEST.
LARGEST = 100.0

_Flat = tuple[float, ...]


def table(
    parameter: Listed, title: str, default: ArrayLike, rows: Sequence[str], columns: Sequence[str]
) -> Array:
    """Draw a table and return its numbers, (rows, columns).

    ``parameter`` is what the address calls it, ``default`` what it holds when that is not there.
    """
    start = tuple(map(float, np.ravel(default)))
    expected = f"{len(start)} numbers from −{LARGEST:g} to {LARGEST:g}, with commas between"
    found = address.several_values(parameter, _reader(len(start)), expected) or start

    prose.markdown("**" + re.sub(r"W_[QKV]", r"$\g<0>$", title) + "**")
    texts = [in_a_field(x) for x in found]
    edited = partial(write, parameter, start)
    number_fields(parameter.name, title, found, texts, rows, columns, LARGEST, edited)
    if any(text != shortest(x) for text, x in zip(texts, found, strict=True)):
        prose.caption("Rounded to four digits; the numbers used have more.")
    if found != start:
        st.button(
            "Back to the original numbers",
            key=f"{parameter.name}_reset",
            icon=":material/undo:",
            type="tertiary",
            on_click=address.put,
            args=(parameter, ()),
        )
    return np.array(found, np.float32).reshape(len(rows), -1)


def write(parameter: Listed, default: ArrayLike, values: Sequence[float]) -> None:
    """Put other numbers into a table that starts as ``default``, row after row. For callbacks only.

    Numbers that the table doesn't take, or another count of them, are left alone.
    """
    start = tuple(map(float, np.ravel(default)))
    if len(values) == len(start) and all(abs(x) <= LARGEST for x in values):
        address.put(parameter, () if tuple(values) == start else tuple(values))


def _reader(size: int) -> Callable[[str], _Flat]:
    def parse(raw: str) -> _Flat:
        values = tuple(map(float, raw.split(",")))
        if len(values) != size or not all(abs(x) <= LARGEST for x in values):
            raise ValueError(raw)
        return values

    return parse
