"""The head view: lines from each token to those that it looks at, beside or instead of a matrix.

``matrix_or_lines`` and ``head_picture`` draw them, from the numbers of the matrix.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.components import brought, picture_switch
from gpt2viz.app.view import View, Window
from gpt2viz.pictures.lines import HINT, LEFT_OUT, MOST_SOURCES, MOST_TOKENS

SCRIPT = brought(__name__).name


def switched(*parts: Window, named: bool = False) -> bool:
    """Pick whether weights are drawn as a matrix or as lines; True for lines.

    It is picked in the browser, which has the numbers for both pictures. A long text is a matrix
    until a part of it is shown that lines can be drawn of. ``parts`` are those of all the texts
    that are drawn. The switch is ``named`` where it stands among others that are.
    """
    few = all(part.exact for part in parts)
    address.choice(parameters.PICTURE, ["matrix", "lines"])
    if named:
        _named_switch(few)
    else:
        picture_switch.draw(enabled=few)
    chosen = address.chosen(parameters.PICTURE) == "lines"
    if chosen and not few:
        prose.caption(f"Lines need a text, or a part of one, of at most {MOST_TOKENS} tokens.")
    return chosen and few


def _named_switch(few: bool) -> None:
    """The switch with its name, and a tip, beside it."""
    with st.container(
        key="named_switch",
        horizontal=True,
        width="content",
        vertical_alignment="center",
        gap="small",
    ):
        prose.markdown(
            ":small[Picture]",
            width="content",
            help=prose.tip(
                "The same numbers twice: cells of a matrix, or lines from each token to the "
                f"tokens that it looks at. Lines are drawn for up to {MOST_TOKENS} tokens."
            ),
        )
        picture_switch.draw(enabled=few)


def on_every_page(position: int) -> None:
    """Choose a query on every page."""
    address.put(parameters.QUERY, position)


def nowhere(_position: int) -> None:
    """Choose none: for tokens that aren't the sentence's."""


def settings(view: View, *, unit: bool) -> dict[str, Any]:
    """What the browser draws lines of matrices with; the widest is 1 on a ``unit`` scale."""
    return {
        "shows": view.model.name,
        "hint": HINT,
        "peak": 1 if unit else None,
        "decimals": 2,
        "colors": view.colors.cases(MOST_SOURCES),
        **LEFT_OUT,
    }
