"""Tables whose numbers can be edited; edited numbers are in the address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

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


class Table(NamedTuple):
    """A table of numbers: the parameter of its edited ones, and those that it starts with.

    Numbers lie between −``largest`` and ``largest``.
    """

    parameter: ListParam
    title: str
    start: ArrayLike
    rows: Sequence[str]
    columns: Sequence[str]
    largest: float = LARGEST

    def draw(self, slot: AbstractContextManager[Any] | None = None) -> Array:
        """Draw the table, in ``slot`` if given, and return its numbers, (rows, columns)."""
        if slot is not None:
            with slot:
                return self.draw()
        values = self._values()
        prose.markdown("**" + re.sub(r"W_[QKVO]", r"$\g<0>$", self.title) + "**")
        texts = [format_for_field(x) for x in values]
        count = f"_edits_of_{self.parameter.name}"

        def edited(message: Mapping[str, Any]) -> None:
            st.session_state[count] = int(message["count"])
            self.write(message["values"])

        mount(
            key=f"grid_{self.parameter.name}",
            data={
                "script": "number_grid",
                "title": self.title,
                "rows": list(self.rows),
                "columns": list(self.columns),
                "values": list(values),
                "texts": texts,
                "largest": self.largest,
                "count": st.session_state.get(count, 0),
            },
            on={"edited": edited},
        )
        if any(text != format_shortest(x) for text, x in zip(texts, values, strict=True)):
            prose.caption("Rounded to four digits; the numbers used have more.")
        if values != _flatten(self.start):
            st.button(
                "Back to the original numbers",
                key=f"{self.parameter.name}_reset",
                icon=":material/undo:",
                type="tertiary",
                on_click=address.put,
                args=(self.parameter, ()),
            )
        return self.numbers()

    def numbers(self) -> Array:
        """Return its numbers, (rows, columns), also where it isn't drawn."""
        return np.array(self._values(), np.float32).reshape(len(self.rows), -1)

    def write(self, values: ArrayLike) -> None:
        """Put other numbers in, row by row. For callbacks only.

        Numbers out of range, or a wrong count of them, are ignored.
        """
        flat = _flatten(values)
        if self._fits(flat):
            address.put(self.parameter, () if flat == _flatten(self.start) else flat)

    def _values(self) -> tuple[float, ...]:
        size, largest = np.size(self.start), f"{self.largest:g}"
        expected = f"{size} numbers from −{largest} to {largest}, with commas between"
        return address.values(self.parameter, self._parse, expected) or _flatten(self.start)

    def _parse(self, raw: str) -> tuple[float, ...]:
        values = tuple(map(float, raw.split(",")))
        if not self._fits(values):
            raise ValueError(raw)
        return values

    def _fits(self, values: tuple[float, ...]) -> bool:
        return len(values) == np.size(self.start) and all(abs(x) <= self.largest for x in values)


def _flatten(values: ArrayLike) -> tuple[float, ...]:
    return tuple(map(float, np.ravel(values)))
