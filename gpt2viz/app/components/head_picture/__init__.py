"""One head of a layer, as a matrix or as lines: which of both, and which head, the browser draws.

It has the numbers of the head that it was sent for both pictures, and those of every head where
these are there (``head_numbers``). What is chosen there is in the address, where the server reads
it before it answers whatever it is asked next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import streamlit as st

from gpt2viz.app import address, output, parameters
from gpt2viz.app.clicks import Dragged
from gpt2viz.app.components import beside, brought, lines, tiles
from gpt2viz.app.view import View
from gpt2viz.pictures.lines import MOST_SOURCES
from gpt2viz.pictures.lines import lines as made_of
from gpt2viz.pictures.picture import Heatmaps

_HTML = f"""
<div class="head" data-here="">
  <div class="more" role="group" aria-label="More heads"></div>
  <p class="title"></p>
  {beside(tiles.__name__, "component.html")}
  <div class="as-lines">{beside(lines.__name__, "component.html")}</div>
  <p class="does"></p>
  <p class="opened"></p>
</div>
"""
_mount = brought(__name__, _HTML).draw


@dataclass(frozen=True)
class Heads:
    """Which heads of a layer are drawn: ``head``, and as lines some ``more`` of them beside it.

    ``numbers`` is what the weights of every head are called in the browser, "" where they aren't
    there, and ``names`` the tokens that they are between, where these say what a head does by
    themselves. ``does`` says it in words, by a head's name "layer.head", and ``opened`` why this
    one opened. Of the layer, the head and the query that are ``said`` the frame tells something.
    ``between`` is what is added to a title.
    """

    layer: int
    head: int
    more: Sequence[int]
    n_head: int
    numbers: str
    names: Sequence[str]
    does: Mapping[str, str]
    opened: str
    said: Sequence[int]
    between: str


def together(head: int, more: Sequence[int]) -> list[int]:
    """The heads that are drawn as lines: ``head`` and the first of those ``more`` that are others.

    One that was chosen and then became ``head`` itself comes back once another is that.
    """
    return [head, *[n for n in more if n != head][: MOST_SOURCES - 1]]


def draw(
    view: View,
    picture: Heatmaps,
    heads: Heads,
    *,
    as_lines: bool,
    drag: Callable[[Dragged], None],
    key: str,
) -> None:
    """Draw the first panel of a ``picture`` as a matrix, or all of them ``as_lines``.

    ``picture.what`` says what is drawn of a head. ``drag`` is what to do where the browser can't
    draw a part that is dragged out.
    """
    one = picture.panels[0]
    name = one.named(f"{picture.what}, layer {heads.layer}, head {heads.head}")
    matrix = replace(picture, what=name, panels=[one], n_columns=1)
    if as_lines:
        listed = together(heads.head, heads.more)
        name = ", ".join(map(str, listed))
        name = one.named(f"{picture.what} of layer {heads.layer}, head {name}")
        named = [f"Head {n}" for n in listed]
        made = made_of(f"{name}, as lines", picture.panels, named, picture.scale == "unit")
        said = output.remember(made, listed=True)
        alt = {"alt": f"{said} All its numbers are in the menu, under Numbers."}
    else:
        said, alt = output.remember(matrix), {}
    tiles.draw(
        replace(matrix, panels=picture.panels, n_columns=len(picture.panels)),
        said,
        view.colors,
        key=key,
        drag=drag,
        of_page=output.shown().runs.get(output.OF_PAGE),
        mount=partial(_mount, on_query_change=_query(key), on_more_change=_more(key)),
        further=alt
        | {"chooses": True, "head": asdict(heads) | _for_lines(view, picture, as_lines)},
    )


def _query(key: str) -> Callable[[], None]:
    """A token whose row is clicked is chosen on every page."""
    return lambda: address.put(parameters.QUERY, int(st.session_state[key].query))


def _more(key: str) -> Callable[[], None]:
    """The heads beside the chosen one, where the browser hasn't their numbers."""
    return lambda: address.put(parameters.MORE, [int(n) for n in st.session_state[key].more])


def _for_lines(view: View, picture: Heatmaps, as_lines: bool) -> dict[str, Any]:
    """What the browser draws lines with, and in what words."""
    return {
        "what": picture.what,
        "query": view.query,
        "picture": "lines" if as_lines else "matrix",
        "scripts": {"tiles": tiles.SCRIPT, "lines": lines.SCRIPT},
        "lines": lines.settings(view, unit=picture.scale == "unit"),
    }
