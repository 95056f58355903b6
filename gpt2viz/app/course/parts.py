"""Parts of every chapter: titles of examples, pictures, and the code that ran."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz.app import address, output, parameters, prose, source_code
from gpt2viz.app.clicks import page_link
from gpt2viz.app.components import Answers, mount
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Parameter, SelectParam
from gpt2viz.app.view import View
from gpt2viz.arrays import Array
from gpt2viz.pictures.frames import Frames, Mark
from gpt2viz.pictures.palette import ink
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.training import curves_at
from gpt2viz.run.stages import Scale
from gpt2viz.textbook.examples import EXAMPLES

#: Most rows of a panel whose cells have room for numbers.
_MOST_ROWS = 20


#: The names of rows and columns if each row is a token's vector.
TOKENS = ("token", "dimension")
#: The names of a plane's two dimensions.
PLANE = ("x₁", "x₂")
#: Numbers that differ by less are equal; differences are shown with four digits.
SAME = 5e-5

T = TypeVar("T")


@dataclass(frozen=True)
class Book:
    """A chapter by its address, and the run of the sentence if it reads one.

    ``values`` are those that its examples have returned so far, by name: texts to fill in, or a
    ``questions.Check`` for the question of that name.
    """

    chapter: str
    run: View | None = None
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def view(self) -> View:
        """The run. Raises ``LookupError`` in a chapter drawn without a sentence."""
        if self.run is None:
            raise LookupError("this chapter was drawn without a sentence")
        return self.run

    def write(self, text: str, **values: Any) -> None:
        """Draw a text filled in with the book's values and with new ones, which the book keeps."""
        self.values.update(values)
        prose.markdown(fill(text, self.values))


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Replace each ``{{name}}`` in a text by its value, and ``{{name? a | b ?}}`` by a or b.

    Raises ``KeyError`` for a name without a value.
    """

    def chosen(match: re.Match[str]) -> str:
        return (match[2] if values[match[1]] else match[3]) or ""

    text = re.sub(r"\{\{(\w+)\?\s?(.*?)(?:\s\|\s(.*?))?\s\?\}\}", chosen, text, flags=re.DOTALL)
    return re.sub(r"\{\{(\w+)\}\}", lambda match: str(values[match[1]]), text).strip()


def largest_gap(a: ArrayLike, b: ArrayLike) -> float:
    """Return the largest difference between two tensors."""
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def vectors(
    title: str,
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    names: tuple[str, str],
) -> Panel:
    """Return a panel of vectors, one per row.

    ``names`` are the titles of rows and columns, "" if their labels suffice.
    """
    across, down = Axis(names[1], columns), Axis(names[0], rows)
    return Panel(title, _matrix(values), down, across, name=title, quantity="value")


def pairs(
    title: str, values: ArrayLike, labels: Sequence[str], quantity: str, masked: ArrayLike = False
) -> Panel:
    """Return a panel of queries (rows) and keys (columns)."""
    matrix, hidden = _matrix(values), np.atleast_2d(np.asarray(masked))
    return Panel(
        title,
        matrix,
        Axis("query", labels[: len(matrix)]),
        Axis("key", labels),
        name=title,
        quantity=quantity,
        masked=hidden if hidden.any() else None,
        masked_text="masked: this key comes later",
        masked_name="masked (a later key)",
    )


def _matrix(values: ArrayLike) -> Array:
    return np.atleast_2d(np.asarray(values, np.float32))


def picture(
    key: str,
    panels: Sequence[Panel],
    scale: Scale = "signed",
    height: int = 260,
    of_run: bool = False,
    slot: AbstractContextManager[Any] | None = None,
) -> None:
    """Draw panels side by side on one scale, in ``slot`` if given.

    Their cells have numbers if they fit.
    """
    has_numbers = all(len(panel.values) <= _MOST_ROWS for panel in panels)
    drawn = Heatmaps(
        "; ".join(panel.title for panel in panels),
        panels,
        scale=scale,
        n_columns=len(panels),
        height=height,
        numbers=NUMBERS_FIT_LARGE if has_numbers else 0,
        legend=any(panel.masked is not None for panel in panels),
    )
    with slot or nullcontext():
        output.picture(drawn, key=key, of_run=of_run)


def curves(
    key: str,
    title: str,
    x: ArrayLike,
    lines: Mapping[str, ArrayLike],
    names: tuple[str, str],
) -> None:
    """Draw curves over the same ``x``; ``names`` are the axes' titles, across and up."""
    output.picture(curves_at(title, x, lines, *names), key=key, of_run=False)


def pick(label: str, parameter: SelectParam, options: Sequence[T], slot: Any = st) -> T:
    """Draw a row of buttons, in ``slot`` if given, and return the picked option."""
    picked: T = slot.segmented_control(label, required=True, **address.choice(parameter, options))
    return picked


def menu(label: str, parameter: SelectParam, options: Sequence[T], slot: Any = st) -> T:
    """Draw a menu, in ``slot`` if given, and return the chosen option."""
    chosen: T = slot.selectbox(label, **address.choice(parameter, options))
    return chosen


def play(drawn: Frames, parameter: SelectParam, of_run: bool = False) -> None:
    """Draw frames to play or step through; the current frame is in the address."""
    at: int = address.read(address.choice(parameter, range(len(drawn.frames))))
    output.remember(drawn.still(at), of_run)
    frames = [
        {"caption": frame.caption, "marks": [_mark(mark) for mark in frame.marks]}
        for frame in drawn.frames
    ]
    data = {"script": "player", "alt": drawn.what, "lines": drawn.lines, "frames": frames, "at": at}
    stopped: Answers = {"at": lambda sent: address.put(parameter, int(sent))}
    mount(data, key=f"{parameter.name}_player", on=stopped)


def _mark(mark: Mark) -> dict[str, Any]:
    fill = mark.fill(output.page_outputs().colors)
    return {
        "key": mark.key,
        "box": [round(n, 5) for n in (mark.x, mark.y, mark.wide, mark.tall)],
        "fill": fill,
        "ink": ink(fill) if fill else "",
        "text": mark.text,
        "left": mark.left,
    }


def code(*made: source_code.Code) -> None:
    """Draw the source of the functions that just ran, from their files."""
    names = ", ".join(dict.fromkeys(f"`{source_code.name(function)}`" for function in made))
    with st.expander(f"The code that ran: {names}", icon=":material/code:"):
        source_code.listing(*made)


def link(page: Page, label: str, requested: Mapping[Parameter, Any] | None = None) -> None:
    """Draw a link to another page, with this page's choices and those ``requested``.

    It opens with the model that read the sentence here, even if another is chosen.
    """
    changes = dict(requested or {})
    run = output.page_outputs().runs.get(output.OF_PAGE)
    if run and run.model != address.get(parameters.MODEL):
        changes[parameters.MODEL] = run.model
    page_link(page, label, "arrow_forward", changes, width="content")


def heading(text: str, anchor: str = "") -> None:
    """Draw a heading; for an example's id, the example's title, with the id as anchor."""
    id, example = text, EXAMPLES.get(text)
    if example:
        text, anchor = f"{example.title} :gray-badge[{id}]", id
    st.subheader(text, anchor=anchor or None)
