"""The switch that puts ``<|endoftext|>`` before the sentence, on every page."""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from gpt2viz import EditError, Model, parse_edits
from gpt2viz.analysis.patterns import moved_cells, parse_cells
from gpt2viz.app import address, prose
from gpt2viz.app.literal import literal
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.run.edits import moved

_NAME = "endoftext"

_PLAIN = END_OF_TEXT.decode()
#: The token as Markdown.
WRITTEN = literal(_PLAIN)


def is_on() -> bool:
    """Whether the switch, which must have been drawn, is on."""
    on: bool = st.session_state[_NAME]
    return on


def switch(model: Model) -> None:
    """Draw the switch; off, and fixed, where the model has no such token."""
    there = model.tokenizer.end_of_text is not None
    bound = address.switch(_NAME, False, movable=there)
    change, name = bound.pop("on_change"), bound["args"]

    def changed(*_args: str) -> None:
        change(*name)
        _move(1 if is_on() else -1)

    st.toggle(
        f"{_PLAIN} first",  # a screen reader hears a label as it is written here
        disabled=not there,
        help=prose.tip(
            f"Puts the token {WRITTEN} before your sentence. GPT-2 was trained with it between "
            "texts; the bundled model was not. Heads that would rest on your first word can rest "
            "on it instead."
            if there
            else f"This model's vocabulary has no token {WRITTEN}."
        ),
        on_change=changed,
        **bound,
    )


def _move(by: int) -> None:
    """Let what is chosen in the address be the same tokens as before, at their new places."""
    for name in ("query", "key", "keys"):
        raw = st.query_params.get(name, "").split(",")
        places = [int(n) + by for n in raw if n.isdecimal() and int(n) + by >= 0]
        if name in st.query_params:
            address.put(name, places if name == "keys" else next(iter(places), None))
    with suppress(EditError):  # the page that reads them says so
        if edits := parse_edits(st.query_params.get("edits", "")):
            address.put("edits", moved(edits, by))
    for name in ("match", "cells"):
        with suppress(ValueError):
            if cells := parse_cells(st.query_params.get(name, "")):
                address.put(name, moved_cells(cells, by))
