"""Tables whose numbers can be edited; what was edited is in the address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.traces import Array
from gpt2viz.ui import address

#: Numbers that a table takes lie between −LARGEST and LARGEST.
LARGEST = 100.0

_Flat = tuple[float, ...]


class _Editor(NamedTuple):
    """One table on screen: the numbers that it was given, and what edits have made of them."""

    version: int
    given: _Flat
    now: _Flat


def table(
    name: str, title: str, default: ArrayLike, rows: Sequence[str], columns: Sequence[str]
) -> Array:
    """Draw a table and return its numbers, (rows, columns).

    ``name`` is its parameter in the address, ``default`` what it holds when that is not there.
    """
    start = tuple(map(float, np.ravel(default)))
    expected = f"{len(start)} numbers from −{LARGEST:g} to {LARGEST:g}, with commas between"
    found = address.several_values(name, _reader(len(start)), expected) or start
    editors: dict[str, _Editor] = st.session_state.setdefault("_editors", {})
    editor = editors.get(name)
    if editor is None or editor.now != found:  # a link or a reset: a fresh table with its numbers
        editor = editors[name] = _Editor(editor.version + 1 if editor else 0, found, found)
    key = f"{name}_{editor.version}"

    def edited() -> None:
        now = _with_edits(editor.given, columns, st.session_state[key]["edited_rows"])
        editors[name] = editor._replace(now=now)
        address.put(name, () if now == start else now)

    st.markdown(f"**{title}**")
    _grid(key, np.reshape(editor.given, (len(rows), -1)), rows, columns, edited)
    if found != start:
        st.button(
            "Back to the first numbers",
            key=f"{name}_reset",
            icon=":material/undo:",
            type="tertiary",
            on_click=address.put,
            args=(name, ()),
        )
    return np.array(found, np.float32).reshape(len(rows), -1)


def _reader(size: int) -> Callable[[str], _Flat]:
    def parse(raw: str) -> _Flat:
        values = tuple(map(float, raw.split(",")))
        if len(values) != size or not all(abs(x) <= LARGEST for x in values):
            raise ValueError(raw)
        return values

    return parse


def _with_edits(given: _Flat, columns: Sequence[str], edits: dict[int, dict[str, float]]) -> _Flat:
    values = list(given)
    for row, cells in edits.items():
        for column, value in cells.items():
            values[int(row) * len(columns) + list(columns).index(column)] = float(value)
    return tuple(values)


def _grid(
    key: str,
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    edited: Callable[[], None],
) -> None:
    number = st.column_config.NumberColumn(
        min_value=-LARGEST, max_value=LARGEST, required=True, format="%.4g"
    )
    st.data_editor(
        pd.DataFrame(values, list(rows), list(columns)),
        key=key,
        on_change=edited,
        column_config=dict.fromkeys(columns, number)
        | {"_index": st.column_config.TextColumn(disabled=True)},
    )
