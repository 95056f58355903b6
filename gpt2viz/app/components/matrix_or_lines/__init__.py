"""Matrices, or the same numbers as lines: the browser has them for both, and draws either.

Which of both is in the address, where the server reads it before it answers whatever it is asked
next. ``lines.switched`` draws the switch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from gpt2viz.app import output
from gpt2viz.app.clicks import Cell, Dragged
from gpt2viz.app.components import beside, brought, lines, tiles
from gpt2viz.app.source_code import Made
from gpt2viz.app.view import View
from gpt2viz.pictures.lines import lines as made_of
from gpt2viz.pictures.picture import Heatmaps

_HTML = f"""
<div class="either" data-here="">
  <div class="as-lines">
    <div><p class="title"></p>{beside(lines.__name__, "component.html")}</div>
  </div>
  {beside(tiles.__name__, "component.html")}
</div>
"""
_mount = brought(__name__, _HTML).draw

_NUMBERS = "All its numbers are in the menu, under Numbers."


@dataclass(frozen=True)
class Lined:
    """One picture of lines: what it is called, and what its matrices are called in it.

    ``choose`` is called with the place of a query that is clicked; by default it is chosen on
    every page. The token of a framed row is ``lit`` up.
    """

    what: str
    names: Sequence[str]
    choose: Callable[[int], None] = lines.on_every_page
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
        said, alts = f"{picture.what}.", _remembered(picture, lined, of_run)
    else:
        said, alts = output.remember(picture, of_run), [f"{one.what}, as lines." for one in lined]
    either = {
        "picture": "lines" if as_lines else "matrix",
        "here": here,
        "scripts": {"tiles": tiles.SCRIPT, "lines": lines.SCRIPT},
        "lines": lines.settings(view, unit=picture.scale == "unit"),
        "lined": [
            {"what": one.what, "names": one.names, "lit": one.lit, "alt": f"{alt} {_NUMBERS}"}
            for one, alt in zip(lined, alts, strict=True)
        ],
    }
    tiles.draw(
        picture,
        said,
        view.colors,
        key=key,
        choose=choose,
        drag=drag,
        of_page=output.shown().runs.get(output.OF_PAGE),
        mount=partial(_mount, on_query_change=_query(key, [one.choose for one in lined])),
        further={"either": either},
    )
    if made_by:
        output.code(*made_by, of=[picture.what])


def _remembered(picture: Heatmaps, lined: Sequence[Lined], of_run: bool) -> list[str]:
    """Remember each picture of lines; their text alternatives."""
    left, unit = iter(picture.panels), picture.scale == "unit"
    drawn = (
        made_of(f"{one.what}, as lines", [next(left) for _ in one.names], one.names, unit)
        for one in lined
    )
    return [output.remember(one, of_run, listed=True) for one in drawn]


def _query(key: str, choose: Sequence[Callable[[int], None]]) -> Callable[[], None]:
    """A query that is clicked among lines is chosen by what its picture says."""

    def clicked() -> None:
        sent = st.session_state[key].query
        choose[int(sent["picture"])](int(sent["token"]))

    return clicked
