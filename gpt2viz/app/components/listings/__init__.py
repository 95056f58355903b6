"""Two listings side by side: a line of the first is chosen, and those of the second that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from gpt2viz.app.components import component

_draw = component(__name__, '<div class="listings"></div>')


def draw_listings(
    key: str,
    titles: tuple[str, str],
    listings: tuple[Sequence[str], Sequence[str]],
    parts: Sequence[int | None],
    beside: Mapping[int, Sequence[int]],
    chosen: int,
    choose: Callable[[int], None],
) -> None:
    """Draw the lines of both, numbered from 1, with ``chosen`` and what is ``beside`` it lit up.

    ``parts`` has, for each line of the first, the line that it goes on from, or its own; None
    where it can't be chosen. ``choose`` is called with such a line, also where a line beside it
    was clicked. It stays with the visitor while the page is open: let it hold no run.
    """

    def clicked() -> None:
        if sent := st.session_state[key].line:
            choose(int(sent))

    _draw(
        key=key,
        data={
            "titles": titles,
            "listings": listings,
            "parts": parts,
            "beside": {str(line): there for line, there in beside.items()},
            "chosen": chosen,
        },
        on_line_change=clicked,
    )
