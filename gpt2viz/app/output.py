"""Pictures and tables of a page: drawn here, and remembered for whoever wants to save them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pandas as pd
import streamlit as st

from gpt2viz import Trace, export
from gpt2viz.app import popover, run_cache, source_code
from gpt2viz.app.clicks import Cell, Dragged
from gpt2viz.app.components import chart, tiles
from gpt2viz.app.source_code import Made
from gpt2viz.labels import pluralize
from gpt2viz.pictures.canvas import Matrices
from gpt2viz.pictures.palette import LIGHT, Palette
from gpt2viz.pictures.picture import ENTROPY, RANK, Lens, Picture
from gpt2viz.run.key import RunKey

#: What the run of the sentence in the address is called, on every page that reads one.
OF_PAGE = "The run"


@dataclass(frozen=True)
class Entry:
    """A picture, a table or both, which the page shows under one name.

    ``packed`` is the picture with numbers of its own: those of a run must not stay for its sake,
    and most are never asked for. So is ``frame`` what makes a table that isn't drawn yet. One that
    is ``listed`` has its numbers as a table. ``explained`` says that the code of the picture can be
    read.
    """

    packed: bytes | None = None
    frame: pd.DataFrame | bytes | None = None
    listed: bool | None = None
    explained: bool = False

    @property
    def picture(self) -> Picture | None:
        """The picture, unpacked."""
        if self.packed is None:
            return None
        picture: Picture = pickle.loads(self.packed)  # noqa: S301 (packed here)
        return picture

    @property
    def table(self) -> pd.DataFrame | None:
        """The table, made if it isn't there yet."""
        if self.listed and (picture := self.picture):
            return picture.table()
        if not isinstance(self.frame, bytes):
            return self.frame
        make: Callable[[], pd.DataFrame] = pickle.loads(self.frame)  # noqa: S301 (packed here)
        return make()


@dataclass
class PageOutputs:
    """The outputs of the open page so far, by what it says of them, the runs behind it, and the
    ``colors`` that they are drawn in."""

    page: str
    arrived: bool = True  # True if another page was open before
    colors: Palette = LIGHT
    runs: dict[str, RunKey] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def pictures(self) -> dict[str, Picture]:
        """The pictures, by name."""
        pictures = ((name, entry.picture) for name, entry in self.entries.items())
        return {name: picture for name, picture in pictures if picture is not None}

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables, by name."""
        tables = ((name, entry.table) for name, entry in self.entries.items())
        return {name: table for name, table in tables if table is not None}

    def traces(self) -> dict[str, Trace]:
        """The runs, from the cache or made again: a visitor's page holds on to none of them."""
        return {name: run_cache.run(key) for name, key in self.runs.items()}


def begin(page: str) -> None:
    """Forget the page of before. For the frame, which opens every page."""
    before: PageOutputs | None = st.session_state.get("_shown")
    st.session_state["_shown"] = PageOutputs(page, arrived=before is None or before.page != page)


def snapshot() -> PageOutputs:
    """A copy of the page's outputs; what comes later isn't in it."""
    outputs = shown()
    return replace(outputs, runs=dict(outputs.runs), entries=dict(outputs.entries))


def restore(before: PageOutputs) -> None:
    """Forget what the page showed since; both stay as they are."""
    st.session_state["_shown"] = replace(
        before, runs=dict(before.runs), entries=dict(before.entries)
    )


def shown() -> PageOutputs:
    """The page's outputs; all of them once its script has run to the end."""
    outputs: PageOutputs = st.session_state["_shown"]
    return outputs


def run(name: str, trace: Trace) -> None:
    """Remember a run that the page shows numbers of."""
    shown().runs[name] = trace.key


def picture(
    drawn: Picture,
    colors: Palette | None = None,
    *,
    key: str,
    slot: Any = st,
    made_by: Sequence[Made] = (),
    of_run: bool = True,
    choose: Callable[[Cell], None] | None = None,
    drag: Callable[[Dragged], None] | None = None,
    then: Callable[[Cell], None] | None = None,
) -> None:
    """Draw a picture in the container ``slot`` if it is given: matrices on a canvas, bars and
    curves as a chart; in the page's colours or, if they are given, in ``colors`` of its own.

    Of matrices, ``choose`` is called with a cell that is clicked and ``drag`` with the part that is
    dragged out, before the page runs again and in time to set widgets; of wiring, ``choose`` with
    the edge's name for a panel's. They stay with the visitor while the page is open, so neither may
    hold on to a run: give them labels and sizes only.
    ``then`` is called with a clicked cell while the page runs, where it can open another. With
    Shift, a cell of a head's matrix opens why the head looks there.

    ``made_by`` is the code that made its numbers; it can be read below the picture.

    Those who can't see it hear what it is (``Picture.what``), what stands out in its numbers and,
    where it is ``of_run``, what was read.
    """
    alt_text, colors = remember(drawn, of_run), colors or shown().colors
    with nullcontext() if slot is st else slot:
        if isinstance(drawn, Matrices):
            tiles.draw(
                drawn,
                alt_text,
                colors,
                key=key,
                choose=choose,
                drag=drag,
                then=then,
                of_page=shown().runs.get(OF_PAGE),
            )
        elif isinstance(drawn, Lens):
            _lens(drawn, alt_text, colors, key)
        else:
            chart.draw(drawn, alt_text, colors, key=key, choose=choose)
    if made_by:
        code(*made_by, of=[drawn.what], slot=slot)


def _lens(drawn: Lens, alt_text: str, colors: Palette, key: str) -> None:
    """The matrix of a lens on the canvas, and its curves beside it on the same rows."""
    n_columns = drawn.panel.values.shape[1]
    matrix, beside = st.columns([n_columns + 2, 4])  # few columns need less room
    with matrix:
        tiles.draw(drawn.tokens, alt_text, colors, key=key)
    with beside:
        words = f"{drawn.what}: {RANK}, {ENTROPY}."
        chart.draw(drawn, words, colors, key=f"{key}_curves", named=False)


def remember(drawn: Picture, of_run: bool = True, *, listed: bool = False) -> str:
    """Remember a picture for whoever wants its numbers or a file; its text alternative.

    One that is ``listed`` is among the tables too.
    """
    _add(drawn.what, packed=pickle.dumps(drawn), listed=listed or None)
    read = _read() if of_run else ""
    return " ".join(filter(None, [f"{drawn.what}.", export.alt_text(drawn), read]))


def _read() -> str:
    """The length of the sentence and the state of the mask, where the page's runs agree on them."""
    runs = shown().runs.values()
    lengths = sorted({len(key.token_ids) for key in runs})
    masks = {key.causal for key in runs}
    if not lengths:
        return ""
    longest = pluralize(lengths[-1], "tokens")
    sentence = f"Sentence of {longest}"
    if len(lengths) > 1:
        sentence = f"Sentences of {' and '.join([*map(str, lengths[:-1]), longest])}"
    if len(masks) > 1:  # the picture's own words say which
        return f"{sentence}."
    return f"{sentence}, causal mask {'on' if True in masks else 'off'}."


def code(*made_by: Made, of: Sequence[str], slot: Any = st) -> None:
    """The code that made the numbers of the pictures ``of``, on demand."""
    entries = shown().entries
    entries.update({name: replace(entries[name], explained=True) for name in of if name in entries})
    with slot.popover("Code", icon=":material/code:", type="tertiary"):
        source_code.listing(*made_by)


def table(
    frame: pd.DataFrame | Mapping[str, Any],
    name: str,
    *,
    slot: Any = st,
    hide_index: bool | None = True,
    formats: Mapping[str, str] = MappingProxyType({}),
    tallest: int | None = None,
    choose: Callable[[int], None] | None = None,
    **options: Any,
) -> Any:
    """Draw a table, with the options of ``st.dataframe``, and return what that does.

    ``name`` says in a line what is in it, for the name of the file if it is saved. Numbers are
    written in the ``formats`` of their columns. Where ``tallest`` is given, it is as tall as its
    rows, and so many pixels at most. ``choose`` is called with a row that is ticked,
    before the page runs again; it stays with the visitor, so let it hold labels and sizes only.
    """
    drawn = pd.DataFrame(frame)
    _add(name, frame=drawn)
    if tallest is not None:
        options["height"] = _height(drawn, tallest)
    if choose:
        ticked = partial(_ticked, options["key"], choose)
        options |= {"on_select": ticked, "selection_mode": "single-row"}
    written = {name: st.column_config.NumberColumn(format=form) for name, form in formats.items()}
    options["column_config"] = written | options.get("column_config", {})
    return slot.dataframe(drawn, hide_index=hide_index, **options)


def _height(frame: pd.DataFrame, tallest: int) -> int:
    """Pixels of all rows and their titles, ``tallest`` at most."""
    return min(tallest, 38 + 35 * len(frame))


def _ticked(key: str, choose: Callable[[int], None]) -> None:
    """Tell which row was ticked in a table. For callbacks."""
    for row in st.session_state[key]["selection"]["rows"]:
        choose(row)


def tables_on_demand(
    label: str, made: Mapping[str, Callable[[], pd.DataFrame]], key: str = "table"
) -> None:
    """A button that opens into tables, by what is in each; they can be saved without.

    Each is made by a function of a module, or one with some of its arguments (``partial``), once
    somebody wants it.
    """
    for name, make in made.items():
        _add(name, frame=pickle.dumps(make))
    entries, names = shown().entries, list(made)

    def draw() -> None:
        for name in names:
            if len(names) > 1:
                st.caption(name)
            st.dataframe(entries[name].table, placeholder="×")  # masked, as in the picture

    popover.button(label, draw, key=key)


def file_button(
    label: str, data: Any, name: str, mime: str, slot: Any = st, **options: Any
) -> None:
    """A button, into ``slot`` if it is given, that saves ``data``, or what it makes, as a file."""
    options |= {"icon": ":material/download:", "on_click": "ignore"}
    slot.download_button(label, data, file_name=name, mime=mime, **options)


def numbers_of(name: str) -> int:
    """Draw the numbers of a picture that the page shows as a table; how many there are."""
    rows = shown().pictures[name].table()
    st.dataframe(rows, hide_index=True, height=_height(rows, 420))
    return len(rows)


def _add(name: str, **parts: Any) -> None:
    """Add a picture, a table or both to what has that name, or to the first "name (2)" without."""
    entries = shown().entries
    new = {part: value for part, value in parts.items() if value is not None}
    n, unique = 2, name
    while any(getattr(entries.get(unique), part, None) is not None for part in new):
        n, unique = n + 1, f"{name} ({n})"
    entries[unique] = replace(entries.get(unique, Entry()), **new)
