"""Draw a page's pictures and tables, and remember them so that a user can save them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from mimetypes import guess_type
from types import MappingProxyType
from typing import Any

import pandas as pd
import streamlit as st

from gpt2viz import Trace, export
from gpt2viz.app import popover, run_cache, source_code
from gpt2viz.app.clicks import Cell, Drag
from gpt2viz.app.components import mount, tiles
from gpt2viz.app.source_code import Code
from gpt2viz.labels import pluralize
from gpt2viz.pictures.canvas import Matrices
from gpt2viz.pictures.chart import chart
from gpt2viz.pictures.palette import LIGHT, Palette
from gpt2viz.pictures.picture import ENTROPY, RANK, Lens, Picture
from gpt2viz.run.key import RunKey

#: The name of the run of the address's sentence, the same on every page that has one.
OF_PAGE = "The run"


@dataclass(frozen=True)
class Entry:
    """A picture, a table or both, which the page shows under one name.

    ``packed`` is the pickled picture, a copy that keeps no run's arrays alive; most are never
    unpacked. ``frame`` is the table, or the pickled function that makes it. ``listed`` adds the
    picture's numbers to the page's tables. ``explained`` is true if the page shows its code.
    ``runs`` names the runs of its heads, else those that the page had by then; none for numbers
    that aren't from a run.
    """

    packed: bytes | None = None
    frame: pd.DataFrame | bytes | None = None
    listed: bool | None = None
    explained: bool = False
    runs: tuple[str, ...] = ()

    @property
    def picture(self) -> Picture | None:
        """The picture, unpacked."""
        if self.packed is None:
            return None
        picture: Picture = pickle.loads(self.packed)  # noqa: S301 (packed here)
        return picture

    @property
    def table(self) -> pd.DataFrame | None:
        """The table, computed if need be."""
        if self.listed and (picture := self.picture):
            return picture.table()
        if not isinstance(self.frame, bytes):
            return self.frame
        make: Callable[[], pd.DataFrame] = pickle.loads(self.frame)  # noqa: S301 (packed here)
        return make()


@dataclass
class PageOutputs:
    """The open page's outputs so far, by name, with the runs behind it and its ``colors``."""

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
        """Return the runs, from the cache or computed again: no page keeps references to them."""
        return {name: run_cache.run(key) for name, key in self.runs.items()}


def begin(page: str) -> None:
    """Start with no outputs. The frame calls it as it opens a page."""
    before: PageOutputs | None = st.session_state.get("_shown")
    st.session_state["_shown"] = PageOutputs(page, arrived=before is None or before.page != page)


def begin_below_frame() -> None:
    """Forget the outputs below the page's frame, which itself has only a run and the colours."""
    before = page_outputs()
    runs = {OF_PAGE: before.runs[OF_PAGE]}
    st.session_state["_shown"] = PageOutputs(before.page, False, before.colors, runs)


def page_outputs() -> PageOutputs:
    """Return the page's outputs; they are complete once its script has ended."""
    outputs: PageOutputs = st.session_state["_shown"]
    return outputs


def run(name: str, trace: Trace) -> None:
    """Remember a run that the page shows numbers of."""
    page_outputs().runs[name] = trace.key


def picture(
    drawn: Picture,
    *,
    key: str,
    slot: Any = st,
    made_by: Sequence[Code] = (),
    of_run: bool = True,
    choose: Callable[[Cell], None] | None = None,
    drag: Drag | None = None,
    then: Callable[[Cell], None] | None = None,
) -> None:
    """Draw a picture in ``slot``: matrices on a canvas, bars and curves as a chart.

    On matrices, ``choose`` gets a clicked cell and ``drag`` a dragged part, before the page reruns,
    so that they can set widgets; on wiring, ``choose`` gets the edge's name as the cell's panel.
    Streamlit keeps both callbacks for the session, so neither may reference a run: let them hold
    labels and sizes only. ``then`` gets a clicked cell during the rerun, when it can open another
    page. A Shift-click on a cell of a head's matrix opens *Why there?*.

    ``made_by`` is the code behind its numbers, shown below the picture.

    Screen readers announce what it shows (``Picture.what``), what stands out in its numbers and, if
    ``of_run``, the length of the sentence and the state of the mask; a file names them then too.
    """
    alt_text, colors = remember(drawn, of_run), page_outputs().colors
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
                of_page=page_outputs().runs.get(OF_PAGE),
            )
        elif isinstance(drawn, Lens):
            _lens(drawn, alt_text, colors, key)
        else:
            _chart(drawn, alt_text, colors, key, choose)
    if made_by:
        code(*made_by, of=[drawn.what], slot=slot)


def _lens(drawn: Lens, alt_text: str, colors: Palette, key: str) -> None:
    """Draw the matrix of a lens on the canvas, and its curves beside it on the same rows."""
    n_columns = drawn.panel.values.shape[1]
    matrix, right = st.columns([n_columns + 2, 4])  # few columns need less room
    with matrix:
        tiles.draw(drawn.tokens, alt_text, colors, key=key)
    with right:
        words = f"{drawn.what}: {RANK}, {ENTROPY}."
        _chart(drawn, words, colors, f"{key}_curves", named=False)


def _chart(
    drawn: Picture,
    alt_text: str,
    colors: Palette,
    key: str,
    choose: Callable[[Cell], None] | None = None,
    **options: Any,
) -> None:
    """Draw bars, curves or points with the ``options`` of their kind, as SVG.

    ``choose`` gets a cell whose panel is the clicked edge's name.
    """
    data = {
        "script": "chart",
        "picture": chart(drawn, colors, **options),
        "alt": alt_text,
        "chooses": choose is not None,
    }
    mount(data, key=key, on={"picked": choose and (lambda name: choose(Cell(str(name), 0, 0)))})


def remember(drawn: Picture, of_run: bool = True, *, listed: bool = False) -> str:
    """Remember a picture, so that it can be saved, and return its text alternative.

    If ``listed``, its numbers are among the page's tables too.
    """
    runs = _runs_of(drawn) if of_run else ()
    _add(drawn.what, runs, packed=pickle.dumps(drawn), listed=listed or None)
    read = _describe_sentences() if of_run else ""
    return " ".join(filter(None, [f"{drawn.what}.", export.alt_text(drawn), read]))


def _runs_of(drawn: Picture) -> tuple[str, ...]:
    """Name the runs whose heads a picture shows; if it isn't only heads, the page's runs so far."""
    runs, heads = page_outputs().runs, [panel.head for panel in drawn.matrices]
    shown = [head.run for head in heads if head is not None]
    if not heads or len(shown) < len(heads):
        return tuple(runs)
    return tuple(name for name, key in runs.items() if key in shown)


def _describe_sentences() -> str:
    """Say how long the page's sentences are and, if its runs agree, whether the mask is on."""
    runs = page_outputs().runs.values()
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


def code(*made_by: Code, of: Sequence[str], slot: Any = st) -> None:
    """Draw a button that opens the code behind the numbers of the pictures ``of``."""
    entries = page_outputs().entries
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
    of_run: bool = True,
    **options: Any,
) -> Any:
    """Draw a table with the options of ``st.dataframe``, and return what that returns.

    ``name`` says in a line what it holds, and names its file; ``of_run`` is as for ``picture``.
    ``formats`` are number formats by column. With ``tallest``, the table is as tall as its rows, at
    most that many pixels.
    ``choose`` gets the row that was ticked, before the page reruns. Streamlit keeps it for the
    session, so let it hold labels and sizes only.
    """
    drawn = pd.DataFrame(frame)
    _add(name, tuple(page_outputs().runs) if of_run else (), frame=drawn)
    if tallest is not None:
        options["height"] = _height(drawn, tallest)
    if choose:
        on_tick = partial(_choose_row, options["key"], choose)
        options |= {"on_select": on_tick, "selection_mode": "single-row"}
    columns = {name: st.column_config.NumberColumn(format=form) for name, form in formats.items()}
    options["column_config"] = columns | options.get("column_config", {})
    return slot.dataframe(drawn, hide_index=hide_index, **options)


def _height(frame: pd.DataFrame, tallest: int) -> int:
    """Return the height of all rows and the header, at most ``tallest``, in pixels."""
    return min(tallest, 38 + 35 * len(frame))


def _choose_row(key: str, choose: Callable[[int], None]) -> None:
    """Call ``choose`` with the ticked row of a table. For callbacks."""
    for row in st.session_state[key]["selection"]["rows"]:
        choose(row)


def tables_on_demand(
    label: str, made: Mapping[str, Callable[[], pd.DataFrame]], key: str = "table"
) -> None:
    """Draw a button that opens tables, by name; they can be saved without opening it.

    Each is made on demand, by a function that pickle can name or a ``partial`` of one.
    """
    for name, make in made.items():
        _add(name, tuple(page_outputs().runs), frame=pickle.dumps(make))
    entries, names = page_outputs().entries, list(made)

    def draw() -> None:
        for name in names:
            if len(names) > 1:
                st.caption(name)
            st.dataframe(entries[name].table, placeholder="×")  # masked, as in the picture

    popover.button(label, draw, key=key)


def file_button(label: str, data: Any, name: str, slot: Any = st, **options: Any) -> None:
    """Draw a button in ``slot`` that saves ``data``, or what it returns if called, as a file."""
    options |= {"icon": ":material/download:", "on_click": "ignore"}
    slot.download_button(label, data, file_name=name, mime=guess_type(name)[0], **options)


def draw_numbers(name: str) -> int:
    """Draw as a table the numbers of a picture on the page; return how many rows there are."""
    rows = page_outputs().pictures[name].table()
    st.dataframe(rows, hide_index=True, height=_height(rows, 420))
    return len(rows)


def _add(name: str, runs: tuple[str, ...], **parts: Any) -> None:
    """Add parts to the entry of that name, or of "name (2)", … if it has such parts already."""
    entries = page_outputs().entries
    new = {part: value for part, value in parts.items() if value is not None}
    n, unique = 2, name
    while any(getattr(entries.get(unique), part, None) is not None for part in new):
        n, unique = n + 1, f"{name} ({n})"
    entries[unique] = replace(entries.get(unique, Entry()), runs=runs, **new)
