"""Matrices, or the same numbers as lines from each token to those that it attends to.

The browser has the numbers for both and draws either. The choice goes into the address, which the
server reads before its next response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import streamlit as st

from gpt2viz.app import address, output, parameters, prose
from gpt2viz.app.clicks import Cell, Drag
from gpt2viz.app.components import NUMBERS, Answers, mount, tiles
from gpt2viz.app.source_code import Code
from gpt2viz.app.view import View, Window
from gpt2viz.labels import sentence
from gpt2viz.pictures.lines import FOR_SCRIPT, HINT, MOST_SOURCES, MOST_TOKENS
from gpt2viz.pictures.lines import lines as made_of
from gpt2viz.pictures.picture import Heatmaps


def switch(*parts: Window, named: bool = False) -> bool:
    """Draw the switch between matrix and lines; return True for lines.

    The browser switches, as it has the numbers for both pictures. A long text is drawn as a matrix
    until a part is shown that is short enough for lines. ``parts`` are the windows of all texts
    that are drawn. ``named`` adds the switch's label.
    """
    drawable, names = all(part.exact for part in parts), {"matrix": "Matrix", "lines": "Lines"}
    chosen: str = address.read(address.choice(parameters.PICTURE, names))
    with st.container(horizontal=True, width="content", vertical_alignment="center"):
        if named:
            tip = prose.tip(sentence("lines.tip", most=MOST_TOKENS))
            prose.markdown(":small[Picture]", width="content", help=tip)
        mount(
            key="picture_switch",
            data={
                "script": "choices.picture",
                "names": names,
                "chosen": chosen if drawable else "matrix",
                "disabled": not drawable,
            },
            on={"picture": lambda name: address.put(parameters.PICTURE, name)},
            width="content",
        )
    if chosen == "lines" and not drawable:
        prose.caption(sentence("lines.too_long", most=MOST_TOKENS))
    return chosen == "lines" and drawable


def put_query(position: int) -> None:
    """Choose a query on every page."""
    address.put(parameters.QUERY, position)


def ignore_click(_position: int) -> None:
    """Ignore a click: for tokens that aren't the sentence's."""


def settings(view: View, *, unit: bool) -> dict[str, Any]:
    """Return the browser's settings for lines; the widest is 1 on a ``unit`` scale."""
    return {
        "shows": view.model.name,
        "hint": HINT,
        "note": NUMBERS,
        "peak": 1 if unit else None,
        "decimals": 2,
        "colors": view.colors.cases(MOST_SOURCES),
        **FOR_SCRIPT,
    }


@dataclass(frozen=True)
class Lined:
    """One picture of lines: its title ``what``, and the ``names`` of its matrices.

    ``choose`` is called with the position of a clicked query, by default to choose it on every
    page. If ``lit``, the token of a framed row is highlighted.
    """

    what: str
    names: Sequence[str]
    choose: Callable[[int], None] = put_query
    lit: bool = True


def draw(
    view: View,
    picture: Heatmaps,
    lined: Sequence[Lined],
    *,
    as_lines: bool,
    here: bool = True,
    key: str,
    made_by: Sequence[Code] = (),
    of_run: bool = True,
    choose: Callable[[Cell], None] | None = None,
    drag: Drag | None = None,
    script: str = "matrix_or_lines",
    further: Mapping[str, Any] = MappingProxyType({}),
    on: Answers = MappingProxyType({}),
) -> None:
    """Draw a ``picture`` of matrices or, ``as_lines``, the pictures of lines ``lined``.

    These have all of its panels, one after the other. If ``here``, both show the same numbers, and
    the browser switches between them itself. ``script``, ``further`` and ``on`` are as for
    ``tiles.draw``, the rest is as for ``output.picture``.
    """
    if as_lines:
        alt, alts = f"{picture.what}.", _remember(picture, lined, of_run)
    else:
        alt, alts = output.remember(picture, of_run), [f"{plot.what}, as lines." for plot in lined]
    either = {
        "picture": "lines" if as_lines else "matrix",
        "here": here,
        "lines": settings(view, unit=picture.scale == "unit"),
        "lined": [
            {"what": plot.what, "names": plot.names, "lit": plot.lit, "alt": f"{alt} {NUMBERS}"}
            for plot, alt in zip(lined, alts, strict=True)
        ],
    }
    tokens = [plot.choose for plot in lined]
    tiles.draw(
        picture,
        alt,
        view.colors,
        key=key,
        choose=choose,
        drag=drag,
        of_page=output.page_outputs().runs.get(output.OF_PAGE),
        script=script,
        further={"either": either, **further},
        on={"query": lambda sent: tokens[int(sent["picture"])](int(sent["token"])), **on},
    )
    if made_by:
        output.code(*made_by, of=[picture.what])


def _remember(picture: Heatmaps, lined: Sequence[Lined], of_run: bool) -> list[str]:
    """Remember each picture of lines, and return their text alternatives."""
    left, unit = iter(picture.panels), picture.scale == "unit"
    drawn = (
        made_of(f"{plot.what}, as lines", [next(left) for _ in plot.names], plot.names, unit)
        for plot in lined
    )
    return [output.remember(plot, of_run, listed=True) for plot in drawn]
