"""Tables whose numbers can be edited; edited numbers are in the address."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.app import address, prose
from gpt2viz.app.components import mount
from gpt2viz.app.course.written import format_for_field, format_shortest
from gpt2viz.app.parameters import ListParam
from gpt2viz.arrays import Array

#: The numbers of a table lie between −LARGEST and LARGEST by default.
LARGEST = 100.0

_Flat = tuple[float, ...]


def table(
    parameter: ListParam,
    title: str,
    default: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    largest: float = LARGEST,
) -> Array:
    """Draw a table and return its numbers, (rows, columns).

    ``parameter`` holds its edited numbers, ``default`` are the original ones. Numbers lie between
    −``largest`` and ``largest``.
    """
    start, values = _flatten(default), _numbers_in_address(parameter, default, largest)
    prose.markdown("**" + re.sub(r"W_[QKVO]", r"$\g<0>$", title) + "**")
    texts = [format_for_field(x) for x in values]
    count = f"_edits_of_{parameter.name}"

    def edited(message: Mapping[str, Any]) -> None:
        st.session_state[count] = int(message["count"])
        write(parameter, start, [float(x) for x in message["values"]], largest=largest)

    mount(
        key=f"grid_{parameter.name}",
        data={
            "script": "number_grid",
            "title": title,
            "rows": list(rows),
            "columns": list(columns),
            "values": list(values),
            "texts": texts,
            "largest": largest,
            "count": st.session_state.get(count, 0),
        },
        on={"edited": edited},
    )
    if any(text != format_shortest(x) for text, x in zip(texts, values, strict=True)):
        prose.caption("Rounded to four digits; the numbers used have more.")
    if values != start:
        st.button(
            "Back to the original numbers",
            key=f"{parameter.name}_reset",
            icon=":material/undo:",
            type="tertiary",
            on_click=address.put,
            args=(parameter, ()),
        )
    return np.array(values, np.float32).reshape(len(rows), -1)


def numbers(parameter: ListParam, default: ArrayLike, largest: float = LARGEST) -> Array:
    """Return the numbers of a table drawn elsewhere, in the shape of its ``default``."""
    values = _numbers_in_address(parameter, default, largest)
    return np.array(values, np.float32).reshape(np.shape(default))


def _numbers_in_address(parameter: ListParam, default: ArrayLike, largest: float) -> _Flat:
    start = _flatten(default)
    expected = f"{len(start)} numbers from −{largest:g} to {largest:g}, with commas between"
    return address.values(parameter, _parser(len(start), largest), expected) or start


def _flatten(values: ArrayLike) -> _Flat:
    return tuple(map(float, np.ravel(values)))


def write(
    parameter: ListParam, default: ArrayLike, values: Sequence[float], *, largest: float = LARGEST
) -> None:
    """Put other numbers, row by row, into a table that starts as ``default``. For callbacks only.

    Numbers out of range, or a wrong count of them, are ignored.
    """
    start = _flatten(default)
    if len(values) == len(start) and all(abs(x) <= largest for x in values):
        address.put(parameter, () if tuple(values) == start else tuple(values))


def _parser(size: int, largest: float) -> Callable[[str], _Flat]:
    def parse(raw: str) -> _Flat:
        values = tuple(map(float, raw.split(",")))
        if len(values) != size or not all(abs(x) <= largest for x in values):
            raise ValueError(raw)
        return values

    return parse
