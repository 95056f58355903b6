"""Matrices, or the same numbers as lines: the browser has them for both, and draws either.

Lines go from each token to those that it looks at. Which of both is drawn is in the address, where
the server reads it before it answers whatever it is asked next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.clicks import Cell, Dragged
from gpt2viz.app.components import mount, tiles
from gpt2viz.app.source_code import Made
from gpt2viz.app.view import View, Window
from gpt2viz.labels import sentence
from gpt2viz.pictures.lines import HINT, LEFT_OUT, MOST_SOURCES, MOST_TOKENS, Lines
from gpt2viz.pictures.lines import lines as made_of
from gpt2viz.pictures.picture import Heatmaps

_NUMBERS = "All its numbers are in the menu, under Numbers."


def switched(*parts: Window, named: bool = False) -> bool:
    """Pick whether weights are drawn as a matrix or as lines; True for lines.

    It is picked in the browser, which has the numbers for both pictures. A long text is a matrix
    until a part of it is shown that lines can be drawn of. ``parts`` are those of all the texts
    that are drawn. The switch is ``named`` where it stands among others that are.
    """
    few = all(part.exact for part in parts)
    address.choice(parameters.PICTURE, ["matrix", "lines"])
    if named:
        _switch_with_name(few)
    else:
        _switch(enabled=few)
    chosen = address.get(parameters.PICTURE) == "lines"
    if chosen and not few:
        prose.caption(sentence("lines.too_long", most=MOST_TOKENS))
    return chosen and few


def _switch_with_name(few: bool) -> None:
    """The switch with its name, and a tip, beside it."""
    with st.container(
        key="named_switch", horizontal=True, width="content", vertical_alignment="center"
    ):
        prose.markdown(
            ":small[Picture]",
            width="content",
            help=prose.tip(sentence("lines.tip", most=MOST_TOKENS)),
        )
        _switch(enabled=few)


def _switch(*, enabled: bool) -> None:
    """Draw the switch for ``parameters.PICTURE``, which the page has read already."""

    def picked() -> None:
        address.put(parameters.PICTURE, st.session_state["picture_switch"].picture)

    mount(
        key="picture_switch",
        data={
            "script": "choices.picture",
            "names": {name: name.capitalize() for name in ("matrix", "lines")},
            "chosen": address.get(parameters.PICTURE) if enabled else "matrix",
            "disabled": not enabled,
        },
        on_picture_change=picked,
        width="content",
    )


def on_every_page(position: int) -> None:
    """Choose a query on every page."""
    address.put(parameters.QUERY, position)


def nowhere(_position: int) -> None:
    """Choose none: for tokens that aren't the sentence's."""


def settings(view: View, *, unit: bool) -> dict[str, Any]:
    """The browser's settings for lines of matrices; the widest is 1 on a ``unit`` scale."""
    return {
        "shows": view.model.name,
        "hint": HINT,
        "peak": 1 if unit else None,
        "decimals": 2,
        "colors": view.colors.cases(MOST_SOURCES),
        **LEFT_OUT,
    }


def draw_parts(
    view: View, picture: Lines, *, hint: str, key: str, choose: Callable[[str, int], None]
) -> None:
    """Draw lines of shares (%) between the parts of two sides, the first part lit up.

    ``choose`` is called with the side, "query" or "key", and the row of a part that is clicked.
    """
    (panel,) = picture.panels

    def clicked(side: str) -> Callable[[], None]:
        return lambda: choose(side, int(st.session_state[key][side]))

    data = settings(view, unit=False) | {
        "script": "lines",
        "alt": f"{output.remember(picture, listed=True)} {_NUMBERS}",
        "shows": picture.what,
        "hint": hint,
        "ends": picture.ends,
        "quantity": picture.quantity,
        "decimals": 0,
        "unit": " %",
        "queries": [("", name) for name in panel.rows.labels],
        "keys": [("", name) for name in panel.columns.labels],
        "chosen": 0,
        "matrices": [{"name": picture.quantity, "values": panel.values.ravel().tolist()}],
    }
    mount(data, key=key, on_query_change=clicked("query"), on_key_change=clicked("key"))


@dataclass(frozen=True)
class Lined:
    """One picture of lines: what it is called, and what its matrices are called in it.

    ``choose`` is called with the place of a query that is clicked; by default it is chosen on
    every page. The token of a framed row is ``lit`` up.
    """

    what: str
    names: Sequence[str]
    choose: Callable[[int], None] = on_every_page
    lit: bool = True


def draw(
    view: View,
    picture: Heatmaps,
    lined: Sequence[Lined],
    *,
    as_lines: bool,
    here: bool = True,
    key: str,
    made_by: Sequence[Made] = (),
    of_run: bool = True,
    choose: Callable[[Cell], None] | None = None,
    drag: Callable[[Dragged], None] | None = None,
) -> None:
    """Draw a ``picture`` of matrices, or ``as_lines``, as the pictures that are ``lined`` up.

    These have all of its panels, one after the other. The browser changes from one to the other
    where the same numbers are in both, ``here``. The rest is as for ``output.picture``.
    """
    if as_lines:
        alt, alts = f"{picture.what}.", _remembered(picture, lined, of_run)
    else:
        alt, alts = output.remember(picture, of_run), [f"{plot.what}, as lines." for plot in lined]
    either = {
        "picture": "lines" if as_lines else "matrix",
        "here": here,
        "lines": settings(view, unit=picture.scale == "unit"),
        "lined": [
            {"what": plot.what, "names": plot.names, "lit": plot.lit, "alt": f"{alt} {_NUMBERS}"}
            for plot, alt in zip(lined, alts, strict=True)
        ],
    }
    tiles.draw(
        picture,
        alt,
        view.colors,
        key=key,
        choose=choose,
        drag=drag,
        of_page=output.shown().runs.get(output.OF_PAGE),
        script="matrix_or_lines",
        further={"either": either},
        on_query_change=_query(key, [plot.choose for plot in lined]),
    )
    if made_by:
        output.code(*made_by, of=[picture.what])


def _remembered(picture: Heatmaps, lined: Sequence[Lined], of_run: bool) -> list[str]:
    """Remember each picture of lines; their text alternatives."""
    left, unit = iter(picture.panels), picture.scale == "unit"
    drawn = (
        made_of(f"{plot.what}, as lines", [next(left) for _ in plot.names], plot.names, unit)
        for plot in lined
    )
    return [output.remember(plot, of_run, listed=True) for plot in drawn]


def _query(key: str, choose: Sequence[Callable[[int], None]]) -> Callable[[], None]:
    """A query that is clicked among lines is chosen by what its picture says."""

    def clicked() -> None:
        sent = st.session_state[key].query
        choose[int(sent["picture"])](int(sent["token"]))

    return clicked
