"""The pattern that a person draws: picked, then painted cell by cell."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from gpt2viz.analysis.patterns import Cell, Kind, parse_cells
from gpt2viz.app import address, parameters, prose
from gpt2viz.app.clicks import Cell as ClickedCell
from gpt2viz.app.frame.page import View

#: What a person picks, what the number beside it is called, and the one it begins with.
PATTERNS: dict[Kind, tuple[str, str, int]] = {
    "back": ("A fixed number of tokens back", "Tokens back", 1),
    "column": ("One token, from everywhere", "Token", 0),
    "block": ("Blocks along the diagonal", "Tokens in a block", 3),
    "stripes": ("Stripes at regular distances back", "Period", 2),
    "empty": ("Nothing: paint it yourself", "", 0),
}

#: A longer text's cells are too small to be painted.
PAINTABLE = 64


def pattern(view: View) -> tuple[Kind, int, tuple[Cell, ...]]:
    """Pick a pattern, its number and the cells that are painted over it."""
    cells: tuple[Cell, ...] = address.several_values(
        parameters.CELLS, parse_cells, "pairs of query and key, such as 3:1,4:2"
    )
    bound = address.choice(parameters.PATTERN, list(PATTERNS))
    change, args = bound.pop("on_change"), bound["args"]

    def begin_anew(*_args: str) -> None:
        change(*args)
        address.put(parameters.CELLS, ())
        address.put(parameters.N, None)

    kind: Kind = st.selectbox(
        "Pattern",
        list(PATTERNS),
        format_func=lambda k: PATTERNS[k][0],
        on_change=begin_anew,
        **bound,
    )
    _, name, default = PATTERNS[kind]
    n = default
    if name:
        least = 0 if kind in ("back", "column") else 1
        counts = range(least, max(view.n_tokens, default + 1))
        n = st.selectbox(name, counts, **address.choice(parameters.N, counts, default))
    if cells:
        st.button(
            f"Clear {len(cells)} painted cell{'s' if len(cells) > 1 else ''}",
            icon=":material/undo:",
            type="tertiary",
            on_click=address.put,
            args=(parameters.CELLS, ()),
        )
    return kind, n, cells


def note(view: View) -> None:
    """What a click on the pattern does, and what the number beside it is."""
    prose.caption(
        (
            "Click cells to paint or clear them. "
            if view.n_tokens <= PAINTABLE
            else f"Cells can be painted in texts of up to {PAINTABLE} tokens. "
        )
        + "The number is the **cosine similarity** over the rows with a wanted cell: 1 for a head "
        "that gives these cells all its weight, 0 for one that gives them none."
    )


def paint(view: View) -> Callable[[ClickedCell], None]:
    """A click on a cell of the pattern adds it or takes it away."""
    paintable, causal = view.n_tokens <= PAINTABLE, view.trace.causal

    def clicked(where: ClickedCell) -> None:
        cell = Cell(where.row, where.column)
        if not paintable or (causal and cell.key > cell.query):
            return
        before = address.chosen(parameters.CELLS)
        without = tuple(other for other in before if other != cell)
        address.put(parameters.CELLS, without if cell in before else (*before, cell))

    return clicked
