"""The map of a model: every head of every layer on one canvas, and the hardest looks below it.

What is pointed at lights up in the browser, without a word to the server: the heads and all their
hardest looks are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from gpt2viz.analysis.looks import Look, Looks
from gpt2viz.app import output
from gpt2viz.app.components import brought
from gpt2viz.pictures.canvas import message, quantize, quantized_colors
from gpt2viz.pictures.every_head import Arrow, Thumbnails
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Axis

_KEYS = (
    "All its numbers are in the menu, under Numbers. Arrow keys go from head to head, Page Up and "
    "Page Down from token to token, Enter chooses, o looks inside."
)
_HINT = (
    "Point at a row: its token lights up in every head, and the heads that look hardest from it "
    "stand here (at another token that isn't the first). A click chooses a head."
)
_PATH_HINT = (
    "Point at a row: its token lights up in every head. A click on a head of the path opens it."
)
_draw = brought(__name__).draw


def draw(
    picture: Thumbnails,
    looks: Looks,
    coming: str,
    colors: Palette,
    *,
    key: str,
    choose: Callable[[int, int, int | None], None],
) -> tuple[int, int] | None:
    """Draw the map; the layer and head that are to be looked into, where that was asked for.

    ``coming`` says what comes next, below it; empty leaves that out. ``choose`` is called with a
    layer and a head that are clicked, and with the row in ``looks`` of a token where one was
    reached by keys. Where the browser draws all that they change, they are chosen there.
    """

    def chosen() -> None:
        if sent := st.session_state[key].head:
            token = int(sent["token"])
            choose(int(sent["layer"]), int(sent["head"]), None if token < 0 else token)

    said = _header(picture, looks, coming, colors)
    said["alt"] = f"{output.remember(picture)} {_KEYS}"
    found = _draw(
        key=key,
        data=message(said, quantize(picture.tiles, picture.hidden).tobytes()),
        on_head_change=chosen,
        on_open_change=lambda: None,
    )
    if not found.open:
        return None
    layer, head = str(found.open).split(".")
    return int(layer), int(head)


def _header(picture: Thumbnails, looks: Looks, coming: str, colors: Palette) -> dict[str, Any]:
    n_layer, n_head = picture.tiles.shape[:2]
    layer, head = picture.chosen or (0, 0)
    tokens = Axis("token", picture.labels, picture.positions)
    row = None if picture.row is None else tokens.place(picture.row)
    query, key = picture.axes
    return {
        "rows": query.plain_names(),
        "columns": key.plain_names(),
        "layers": n_layer,
        "heads": n_head,
        "chosen": layer * n_head + head,
        "token": -1 if row is None else row,
        "tokens": tokens.plain_names(),
        "starts": picture.starts,
        "looks": [_listed(found, n_head) for found in looks.hardest_of_each()],
        "arrows": [_ends(one, n_head) for one in picture.arrows],
        "next": coming,
        "hint": _PATH_HINT if picture.arrows else _HINT,
        "none": ": none, only at itself and at the first token",
        **quantized_colors(colors.unit, colors),
    }


def _ends(arrow: Arrow, n_head: int) -> tuple[int, int, str]:
    """The heads' numbers in the map, -1 for what goes in, and what stands at the arrow."""
    start, end = (-1 if at is None else at[0] * n_head + at[1] for at in (arrow.start, arrow.end))
    return start, end, arrow.written


def _listed(looks: Sequence[Look], n_head: int) -> list[tuple[int, int, str]]:
    """A token's hardest looks: the head's number in the map, the key, and the weight as text."""
    return [(one.layer * n_head + one.head, one.key, f"{one.weight:.2f}") for one in looks]
