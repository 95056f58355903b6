"""From a cell of any head's matrix, on any page, to why that head looks there."""

from __future__ import annotations

from typing import Any, NoReturn

import streamlit as st

from gpt2viz import TextError
from gpt2viz.app import address, pages, parameters, run_cache
from gpt2viz.app.clicks import Cell
from gpt2viz.app.parameter import Parameter
from gpt2viz.pictures.panel import Panel
from gpt2viz.run.edits import unsummed
from gpt2viz.run.key import RunKey

#: What the address has to say, for a cell's query and key are still wanting.
Way = dict[Parameter, Any]


def way(drawn: Panel, of_page: RunKey | None) -> Way | None:
    """What leads to the head of a panel in its run; None where no address does.

    ``of_page`` is the run that the address tells of, None on a page that reads no sentence. There
    is none for what is no head's own cells, for a run that can't be taken apart, for a model
    without a name here and for a text that can't be typed or is too long.
    """
    if drawn.head is None or of_page is None:
        return None
    run, layer, head = drawn.head
    text = None if run.token_ids == of_page.token_ids else _text(run)
    other = run.model != of_page.model
    if unsummed(run.edits) or text == "" or (other and run.model not in run_cache.model_folders()):
        return None
    wanted: Way = {parameters.SEE: "why", parameters.LAYER: layer, parameters.HEAD: head}
    wanted |= {parameters.WHY: (), parameters.EDITED: bool(run.edits)}
    if run.edits:
        wanted[parameters.EDITS] = run.edits
    if other:
        wanted[parameters.MODEL] = run.model
    if run.causal != of_page.causal:
        wanted[parameters.CAUSAL] = run.causal
    if text is not None:
        wanted[parameters.TEXT] = text
    return wanted if address.has_room(wanted) else None


def _text(run: RunKey) -> str:
    """The text that makes the tokens of a run where it is typed, "" where none does."""
    tokenizer = run_cache.load(run.model).tokenizer
    first: bool = address.chosen(parameters.END_OF_TEXT)
    text = tokenizer.decode(run.token_ids[tokenizer.own(run.token_ids)])
    try:
        again = tokenizer.encode(text, end_of_text_first=first)
    except TextError:
        return ""
    return text if tuple(again) == run.token_ids else ""


def go(drawn: Panel, wanted: Way, cell: Cell) -> NoReturn:
    """Open the page of the cell's reason."""
    query, key = drawn.rows.position(cell.row), drawn.columns.position(cell.column)
    asked = wanted | {parameters.QUERY: query, parameters.KEY: key}
    st.switch_page(pages.HEAD.path, query_params=address.parameters(asked))
