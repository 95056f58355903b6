"""Clicks on the cells of matrices and parts that are dragged out, and what each changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Self

import streamlit as st

from gpt2viz import TextError
from gpt2viz.app import address, pages, parameters, run_cache
from gpt2viz.app.parameters import Parameter, SelectParam
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
        """The cell that the browser has sent."""
        return cls(str(message["panel"]), int(message["row"]), int(message["column"]))


class Dragged(NamedTuple):
    """The panel's ``name``, and the first and last row and column that a drag has taken in."""

    panel: str
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True)
class Drag:
    """The server's response to a drag over a picture: ``choose`` a part.

    Where it is told what is ``shown`` of the text, the browser does the same by itself.
    """

    choose: Callable[[Dragged], None]
    shown: Shown | None

    def __call__(self, dragged: Dragged) -> None:
        """Choose a part."""
        self.choose(dragged)


def answers(
    key: str, then: Callable[[Cell], None] | None, drag: Callable[[Dragged], None] | None
) -> dict[str, Any]:
    """The callbacks of a component that sends clicked cells and parts that are dragged out.

    They stay with the visitor while the page is open, so neither may hold on to a run: give them
    labels and sizes only.
    """

    def clicked() -> None:
        if then and (sent := st.session_state[key].cell):
            then(Cell.sent(sent))

    def dragged() -> None:
        if drag and (sent := st.session_state[key].part):
            drag(Dragged(str(sent["panel"]), tuple(sent["rows"]), tuple(sent["columns"])))

    return {
        "on_cell_change": clicked,
        "on_part_change": dragged,
        "on_ask_change": lambda: None,  # told while the page runs, which then opens another
    }


def open_head(layer: int, head: int) -> NoReturn:
    """Go to the page that shows a head from inside, with all else that is chosen."""
    query_params = address.parameters({parameters.LAYER: layer, parameters.HEAD: head})
    st.switch_page(pages.HEAD.path, query_params=query_params)


def choose_query(rows: Axis) -> Callable[[Cell], None]:
    """A click chooses the token of its row, on every page."""
    return lambda cell: address.put(parameters.QUERY, rows.position(cell.row))


def choose_cell(drawn: Panel) -> Callable[[Cell], None]:
    """A click chooses a query and a key, by the axes of what is ``drawn``."""
    rows, columns = drawn.rows, drawn.columns

    def clicked(cell: Cell) -> None:
        address.put(parameters.QUERY, rows.position(cell.row))
        address.put(parameters.KEY, columns.position(cell.column))

    return clicked


def choose_head(layer: int, head: int) -> None:
    """Choose a head on every page. For callbacks."""
    address.put(parameters.LAYER, layer)
    address.put(parameters.HEAD, head)


def choose_no_head() -> None:
    """Take back what head was chosen, on every page. For callbacks."""
    address.set_raw(parameters.LAYER, "")
    address.set_raw(parameters.HEAD, "")


def choose_named_head(cell: Cell) -> None:
    """A click chooses the head that its picture is named after: "layer.head"."""
    layer, head = cell.panel.split(".")
    choose_head(int(layer), int(head))


def choose_map_head(
    layer: SelectParam = parameters.LAYER, head: SelectParam = parameters.HEAD
) -> Callable[[Cell], None]:
    """A click in a map of all heads chooses its layer and head."""

    def choose(cell: Cell) -> None:
        address.put(layer, cell.row)
        address.put(head, cell.column)

    return choose


#: The parameters of a link to *Why there?*, without the cell's query and key.
ExplainLink = dict[Parameter, Any]


def explain_link(drawn: Panel, of_page: RunKey | None) -> ExplainLink | None:
    """The link from a panel to its head's *Why there?*; None where no address leads there.

    ``of_page`` is the run of the address, None on a page that reads no sentence. There is no link
    for a panel that isn't one head's, for a run that can't be decomposed, for a model without a
    name here, and for a text that can't be typed or is too long.
    """
    if drawn.head is None or of_page is None:
        return None
    run, layer, head = drawn.head
    text = None if run.token_ids == of_page.token_ids else _typed_text(run)
    other = run.model != of_page.model
    unknown = other and run.model not in run_cache.model_folders()
    if nonlinear_edits(run.edits) or text == "" or unknown:
        return None
    link: ExplainLink = {parameters.SEE: "why", parameters.LAYER: layer, parameters.HEAD: head}
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
    """The text that gives the tokens of a run when it is typed; "" where none does."""
    tokenizer = run_cache.load(run.model).tokenizer
    text = tokenizer.text_of(run.token_ids)
    try:
        again = tokenizer.encode(text, bos=address.chosen(parameters.BOS))
    except TextError:
        return ""
    return text if tuple(again) == run.token_ids else ""


def explain(drawn: Panel, link: ExplainLink, cell: Cell) -> NoReturn:
    """Open *Why there?* for a cell."""
    query, key = drawn.rows.position(cell.row), drawn.columns.position(cell.column)
    cell_link = link | {parameters.QUERY: query, parameters.KEY: key}
    st.switch_page(pages.HEAD.path, query_params=address.parameters(cell_link))
