"""The changes that clicks on the cells of matrices and drags over them make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Self

import streamlit as st

from gpt2viz import TextError
from gpt2viz.app import address, pages, parameters, run_cache
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Parameter, SelectParam
from gpt2viz.labels import head_of
from gpt2viz.pictures.canvas import Shown
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.run.edits import nonlinear_edits
from gpt2viz.run.key import RunKey


class Cell(NamedTuple):
    """A clicked cell: the panel's ``name`` and the position in its matrix."""

    panel: str
    row: int
    column: int

    @classmethod
    def sent(cls, message: Mapping[str, Any]) -> Self:
        """Return the cell in a browser's message."""
        return cls(str(message["panel"]), int(message["row"]), int(message["column"]))


class Dragged(NamedTuple):
    """A dragged part: the panel's ``name``, the first and last row, the first and last column."""

    panel: str
    rows: tuple[int, int]
    columns: tuple[int, int]

    @classmethod
    def sent(cls, message: Mapping[str, Any]) -> Self:
        """Return the part in a browser's message."""
        return cls(str(message["panel"]), tuple(message["rows"]), tuple(message["columns"]))


@dataclass(frozen=True)
class Drag:
    """The server's response to a drag over a picture: ``choose`` a part.

    If ``shown``, the part of the text on screen, is given, the browser does the same by itself.
    """

    choose: Callable[[Dragged], None]
    shown: Shown | None


#: The parameters that a link to another page changes.
Changes = dict[Parameter, Any]


def page_link(page: Page, label: str, icon: str, changes: Changes, **look: Any) -> None:
    """Draw a link to a page, with all other choices; ``look`` are options of ``st.page_link``."""
    query_params, icon = address.parameters(changes), f":material/{icon}:"
    st.page_link(page.path, label=label, icon=icon, query_params=query_params, **look)


def open_head(layer: int, head: int) -> NoReturn:
    """Open *Head* for a head, with all other choices."""
    query_params = address.parameters({parameters.LAYER: layer, parameters.HEAD: head})
    st.switch_page(pages.HEAD.path, query_params=query_params)


def choose_query(rows: Axis) -> Callable[[Cell], None]:
    """Return a callback that chooses the token of a clicked row, on every page."""
    return lambda cell: address.put(parameters.QUERY, rows.position(cell.row))


def choose_cell(drawn: Panel) -> Callable[[Cell], None]:
    """Return a callback that chooses a clicked cell's query and key, by the axes of ``drawn``."""
    (query, rows), (key, columns) = (parameters.QUERY, drawn.rows), (parameters.KEY, drawn.columns)
    return lambda cell: address.put_all(
        {query: rows.position(cell.row), key: columns.position(cell.column)}
    )


def choose_head(layer: int, head: int) -> None:
    """Choose a head on every page. For callbacks."""
    address.put_all({parameters.LAYER: layer, parameters.HEAD: head})


def choose_no_head() -> None:
    """Reset the choice of head, on every page. For callbacks."""
    with address.one_step():
        address.set_raw(parameters.LAYER, "")
        address.set_raw(parameters.HEAD, "")


def choose_named_head(cell: Cell) -> None:
    """Choose the head that the cell's panel is named after: "layer.head"."""
    choose_head(*head_of(cell.panel))


def choose_map_head(
    further: Mapping[Parameter, Any] = MappingProxyType({}),
    layer: SelectParam = parameters.LAYER,
    head: SelectParam = parameters.HEAD,
) -> Callable[[Cell], None]:
    """Return a callback that chooses the clicked head of a map, and ``further`` values."""
    return lambda cell: address.put_all({**further, layer: cell.row, head: cell.column})


def explain_link(drawn: Panel, of_page: RunKey | None) -> Changes | None:
    """Return the link from a panel to its head's *Why there?*, or None if no address leads there.

    It lacks the cell's query and key, which ``explain`` adds.
    ``of_page`` is the run of the address, None on a page that reads no sentence. There is no link
    for a panel that isn't of one head, for a run that can't be decomposed, for a model that the app
    doesn't list, and for a text that can't be typed or is too long.
    """
    if drawn.head is None or of_page is None:
        return None
    run, layer, head = drawn.head
    text = None if run.token_ids == of_page.token_ids else _typed_text(run)
    other = run.model != of_page.model
    unknown = other and run.model not in run_cache.model_folders()
    if nonlinear_edits(run.edits) or text == "" or unknown:
        return None
    link: Changes = {parameters.SEE: "why", parameters.LAYER: layer, parameters.HEAD: head}
    link |= {parameters.WHY: (), parameters.EDITED: bool(run.edits)}
    if run.edits:
        link[parameters.EDITS] = run.edits
    if other:
        link[parameters.MODEL] = run.model
    if run.causal != of_page.causal:
        link[parameters.CAUSAL] = run.causal
    if text is not None:
        link[parameters.TEXT] = text
    return link if address.has_room(link) else None


def _typed_text(run: RunKey) -> str:
    """Return the text that encodes to the tokens of a run, "" if none does."""
    tokenizer = run_cache.load(run.model).tokenizer
    text = tokenizer.text_of(run.token_ids)
    try:
        again = tokenizer.encode(text, bos=address.get_chosen(parameters.BOS))
    except TextError:
        return ""
    return text if tuple(again) == run.token_ids else ""


def explain(drawn: Panel, link: Changes, cell: Cell) -> NoReturn:
    """Open *Why there?* for a cell."""
    query, key = drawn.rows.position(cell.row), drawn.columns.position(cell.column)
    cell_link = link | {parameters.QUERY: query, parameters.KEY: key}
    st.switch_page(pages.HEAD.path, query_params=address.parameters(cell_link))
