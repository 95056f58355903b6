"""The head view: lines from each token to those that it looks at, beside or instead of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.components import component
from gpt2viz.app.frame.page import View
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Made
from gpt2viz.app.views.zoom import Window
from gpt2viz.labels import shorten
from gpt2viz.pictures.lines import HINT, MOST_TOKENS, Lines, lines
from gpt2viz.pictures.panel import Axis, Panel

LabelVisibility = Literal["visible", "hidden", "collapsed"]

_draw = component(__name__)


def wanted(*parts: Window, label: LabelVisibility = "visible") -> bool:
    """Pick whether weights are drawn as a matrix or as lines; True for lines.

    A long text is a matrix until a part of it is shown that lines can be drawn of. ``parts`` are
    those of all the texts that are drawn.
    """
    few = all(part.exact for part in parts)
    chosen: str = st.segmented_control(
        "Picture",
        ["matrix", "lines"],
        format_func=str.capitalize,
        required=True,
        label_visibility=label,
        disabled=not few,
        help=prose.tip(
            "The same numbers twice: cells of a matrix, or lines from each token to the tokens "
            f"that it looks at. Lines are drawn for up to {MOST_TOKENS} tokens."
        ),
        **address.choice(parameters.PICTURE, ["matrix", "lines"]),
    )
    if chosen == "lines" and not few:
        prose.caption(f"Lines need a text, or a part of one, of at most {MOST_TOKENS} tokens.")
    return chosen == "lines" and few


def on_every_page(position: int) -> None:
    """Choose a query on every page."""
    address.put(parameters.QUERY, position)


def nowhere(_position: int) -> None:
    """Choose none: for tokens that aren't the sentence's."""


def draw(
    view: View,
    panels: Sequence[Panel],
    names: Sequence[str],
    *,
    key: str,
    alt: str,
    unit: bool = True,
    made_by: Sequence[Made] = (),
    choose: Callable[[int], None] = on_every_page,
) -> None:
    """Draw up to four matrices of the same tokens as lines, told apart by ``names``.

    ``choose`` is called with the place of a query that is clicked; by default it is chosen on
    every page. ``made_by`` and ``alt`` are as for a picture. Raises ``ValueError`` for more than
    256 tokens.
    """
    found = lines(f"{alt}, as lines", panels, names, unit)
    rows = found.rows

    def clicked() -> None:
        choose(rows.position(int(st.session_state[key].query)))

    said = output.remember(found, listed=True)
    _draw(
        key=key,
        data={"shows": f"{view.model.name}, {alt}"} | _data(view, found, said),
        on_query_change=clicked,
    )
    prose.caption(f"{found.note()} A line's width is its {found.quantity}.")
    if made_by:
        output.code(*made_by, of=[alt])


def two_by_two(
    view: View,
    panels: Sequence[Panel],
    *,
    key: str,
    alt: str,
    choose: Callable[[int], None] = on_every_page,
) -> None:
    """Draw matrices as lines side by side, below each other from the third on, by their titles.

    ``choose`` is as for ``draw``; a query that is chosen lights up in all of them.
    """
    columns = st.columns(2, gap="medium")
    for n, panel in enumerate(panels):
        with columns[n % 2]:
            prose.markdown(f":small[{literal(panel.title)}]")
            said = f"{alt}: {panel.title}"
            draw(view, [panel], [panel.title], key=f"{key}_{n}", alt=said, choose=choose)


def _data(view: View, found: Lines, alt: str) -> dict[str, Any]:
    chosen = None if view.query is None else found.rows.place(view.query)
    return {
        "alt": f"{alt} All its numbers are in the menu, under Numbers.",
        "hint": HINT,
        "sources": [
            {
                "name": source.name,
                "q": source.queries.tolist(),
                "k": source.keys.tolist(),
                "v": [float(f"{weight:.7g}") for weight in source.weights],
            }
            for source in found.sources
        ],
        "queries": _ends(found.rows),
        "keys": _ends(found.columns),
        "peak": found.peak,
        "rest": found.at_rest,
        "decimals": 2,
        "chosen": -1 if chosen is None else chosen,
        "colors": view.colors.cases(len(found.sources)),
    }


def _ends(axis: Axis) -> list[tuple[int, str]]:
    return [(axis.position(n), shorten(text)) for n, text in enumerate(axis.labels)]
