"""Every head of a model on a map, with the hardest looks below it, and one head of a layer large.

What is pointed at or chosen is drawn in the browser, without a word to the server: the map has all
heads and their hardest looks, and the large picture the numbers of its head for a matrix and for
lines, and those of every head where they were sent. What is chosen there is in the address, where
the server reads it before it answers whatever it is asked next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from zlib import crc32

import streamlit as st

from gpt2viz.analysis.top_attention import Look, Looks
from gpt2viz.app import address, describe, output, parameters
from gpt2viz.app.clicks import Dragged
from gpt2viz.app.components import lines, mount, tiles
from gpt2viz.app.view import View
from gpt2viz.arrays import Array
from gpt2viz.pictures.canvas import message, quantize, quantized_colors
from gpt2viz.pictures.every_head import Arrow, Thumbnails
from gpt2viz.pictures.lines import MOST_SOURCES
from gpt2viz.pictures.lines import lines as made_of
from gpt2viz.pictures.panel import Axis
from gpt2viz.pictures.picture import Heatmaps

#: So many numbers of every head are sent at most, a quarter of a megabyte.
_MOST_NUMBERS = 65_536
_KEYS = (
    "All its numbers are in the menu, under Numbers. Arrow keys go from head to head, Page Up and "
    "Page Down from token to token, Enter chooses, o looks inside."
)
_HINT = (
    "Point at a row to see that token in every head; its strongest links to other tokens than the "
    "first are listed here. Click a square to open it."
)
_PATH_HINT = (
    "Point at a row: its token lights up in every head. A click on a head of the path opens it."
)


def draw_map(
    picture: Thumbnails,
    looks: Looks,
    *,
    key: str,
    choose: Callable[[int, int, int | None], None],
    off: Sequence[str] = (),
    switch: Callable[[int, int], None] | None = None,
) -> tuple[int, int] | None:
    """Draw the map; the layer and head that are to be looked into, where that was asked for.

    ``choose`` is called with a layer and a head that are clicked, and with the row in ``looks`` of
    a token where one was reached by keys. Where the browser draws all that they change, they are
    chosen there. The heads that are ``off``, "layer.head", are grey; where ``switch`` is given,
    each square has a button that calls it with the layer and the head.
    """

    def switched() -> None:
        if switch and (sent := st.session_state[key].power):
            switch(*map(int, str(sent).split(".")))

    def chosen() -> None:
        if sent := st.session_state[key].head:
            token = int(sent["token"])
            choose(int(sent["layer"]), int(sent["head"]), None if token < 0 else token)

    header = _header(picture, looks)
    n_head = picture.tiles.shape[1]
    header["alt"] = f"{output.remember(picture)} {_KEYS}"
    header["off"] = [int(layer) * n_head + int(head) for layer, head in (n.split(".") for n in off)]
    if switch:
        header["alt"] += " p switches the head off, or on again."
        header["power"] = True
    clicked = mount(
        message(header, quantize(picture.tiles, picture.hidden).tobytes()),
        key=key,
        on_head_change=chosen,
        on_power_change=switched,
        on_open_change=lambda: None,
    )
    if not clicked.open:
        return None
    layer, head = str(clicked.open).split(".")
    return int(layer), int(head)


def _header(picture: Thumbnails, looks: Looks) -> dict[str, Any]:
    n_head = picture.tiles.shape[1]
    return map_header(picture) | {
        "script": "model_map",
        "looks": [_listed(token_looks, n_head) for token_looks in looks.hardest_of_each()],
        "arrows": [_ends(arrow, n_head) for arrow in picture.arrows],
        "hint": _PATH_HINT if picture.arrows else _HINT,
        "none": ": none, only at itself and at the first token",
    }


def map_header(picture: Thumbnails) -> dict[str, Any]:
    """The heads and tokens of a map, and its colours."""
    n_layer, n_head = picture.tiles.shape[:2]
    colors = output.shown().colors
    layer, head = picture.chosen or (0, 0)
    tokens = Axis("token", picture.labels, picture.positions)
    row = None if picture.row is None else tokens.row_at(picture.row)
    query, key = picture.axes
    return {
        "rows": query.plain_names(),
        "columns": key.plain_names(),
        "layers": n_layer,
        "heads": n_head,
        "groups": picture.groups or n_head,
        "chosen": layer * n_head + head,
        "token": -1 if row is None else row,
        "tokens": tokens.plain_names(),
        "starts": picture.starts,
        **quantized_colors(colors.unit, colors),
    }


def _ends(arrow: Arrow, n_head: int) -> tuple[int, int, str]:
    """The heads' numbers in the map, -1 for what goes in, and what stands at the arrow."""
    start, end = (-1 if at is None else at[0] * n_head + at[1] for at in (arrow.start, arrow.end))
    return start, end, arrow.written


def _listed(looks: Sequence[Look], n_head: int) -> list[tuple[int, int, str]]:
    """A token's hardest looks: the head's number in the map, the key, and the weight as text."""
    return [(look.layer * n_head + look.head, look.key, f"{look.weight:.2f}") for look in looks]


def send_weights(weights: Array) -> str:
    """Send the weights (n_layer, nh, T, T) of every head, and return what they are called there.

    "" where they are more than 65,536 numbers, and none are sent.
    """
    if weights.size > _MOST_NUMBERS:
        return ""
    numbers = weights.astype("<f4").tobytes()
    name = f"{crc32(numbers):08x}-{len(numbers)}"
    mount(message({"script": "head_picture.numbers", "name": name}, numbers), key="head_numbers")
    return name


@dataclass(frozen=True)
class Heads:
    """The heads of a layer that are drawn: ``head``, and as lines some ``more`` of them beside it.

    ``numbers`` is what the weights of every head are called in the browser, "" where they aren't
    there, and ``names`` the tokens that they are between, where these say what a head does by
    themselves. ``does`` says it in words, by a head's name "layer.head", and ``opened`` why this
    one opened. ``between`` is what is added to a title.
    """

    layer: int
    head: int
    more: Sequence[int]
    n_head: int
    numbers: str
    names: Sequence[str]
    does: Mapping[str, str]
    opened: str
    between: str


def together(head: int, more: Sequence[int]) -> list[int]:
    """The heads that are drawn as lines: ``head`` and the first of those ``more`` that are others.

    One that was chosen and then became ``head`` itself comes back once another is that.
    """
    return [head, *[n for n in more if n != head][: MOST_SOURCES - 1]]


def draw_head(
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
    panel = picture.panels[0]
    name = panel.named(f"{picture.what}, layer {heads.layer}, head {heads.head}")
    matrix = replace(picture, what=name, panels=[panel], n_columns=1)
    if as_lines:
        listed = together(heads.head, heads.more)
        name = ", ".join(map(str, listed))
        name = panel.named(f"{picture.what} of layer {heads.layer}, head {name}")
        named = [f"Head {n}" for n in listed]
        made = made_of(f"{name}, as lines", picture.panels, named, picture.scale == "unit")
        alt_text = output.remember(made, listed=True)
        alt = {"alt": f"{alt_text} All its numbers are in the menu, under Numbers."}
    else:
        alt_text, alt = output.remember(matrix), {}
    tiles.draw(
        replace(matrix, panels=picture.panels, n_columns=len(picture.panels)),
        alt_text,
        view.colors,
        key=key,
        drag=drag,
        of_page=output.shown().runs.get(output.OF_PAGE),
        script="head_picture",
        on_query_change=_query(key),
        on_more_change=_more(key),
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
    """The browser's settings for lines, and its words."""
    return {
        "what": picture.what,
        "query": view.query,
        "sentences": describe.IN_BROWSER,
        "picture": "lines" if as_lines else "matrix",
        "lines": lines.settings(view, unit=picture.scale == "unit"),
    }
