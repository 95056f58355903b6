"""The map of all heads, with the strongest links listed below it, and every head's weights.

The browser draws what is hovered over or chosen without the server. A choice in the browser goes
into the address, which the server reads before its next response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from gpt2viz.analysis.top_attention import TopAttention
from gpt2viz.app import output
from gpt2viz.app.clicks import open_head
from gpt2viz.app.components import NUMBERS, Answers, mount
from gpt2viz.arrays import Array
from gpt2viz.labels import head_of
from gpt2viz.pictures.canvas import message, quantize, quantized_colors
from gpt2viz.pictures.every_head import Arrow, Thumbnails
from gpt2viz.pictures.lines import MOST_SOURCES
from gpt2viz.pictures.panel import Axis

#: Most weights, of all heads together, that are sent: a quarter of a megabyte.
_MOST_NUMBERS = 65_536
_KEYS = (
    f"{NUMBERS} Arrow keys go from head to head, Page Up and Page Down from token to token, Enter "
    "chooses, o looks inside."
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
    links: TopAttention,
    *,
    key: str,
    choose: Callable[[int, int, int | None], None],
    off: Sequence[str] = (),
    switch: Callable[[int, int], None] | None = None,
) -> None:
    """Draw the map; open *Head* if the user opened a head.

    ``choose`` is called with the layer and head that were clicked, and with the position of a token
    that was reached with the keyboard. If the browser can draw everything that changes, it makes
    the choice itself. The heads that are ``off``, "layer.head", are grey. With ``switch``, each
    square has a button that calls it with the layer and the head.
    """
    header = _header(picture, links)
    header["alt"] = f"{output.remember(picture)} {_KEYS}"
    header["off"] = [layer * picture.tiles.shape[1] + head for layer, head in map(head_of, off)]
    on: Answers = {
        "head": lambda sent: choose(*map(sent.get, ("layer", "head", "query"))),
        "open": None,
    }
    if switch:
        on = {**on, "power": lambda sent: switch(*head_of(str(sent)))}
        header["alt"] += " p switches the head off, or on again."
        header["power"] = True
    clicked = mount(
        message(header, quantize(picture.tiles, picture.hidden).tobytes()),
        key=key,
        on=on,
    )
    if clicked.open:
        open_head(*head_of(str(clicked.open)))


def _header(picture: Thumbnails, links: TopAttention) -> dict[str, Any]:
    n_head = picture.tiles.shape[1]
    return map_header(picture) | {
        "script": "model_map",
        "links": [
            [(at.layer * n_head + at.head, at.key, f"{at.weight:.2f}") for at in of_token]
            for of_token in links.strongest_of_each
        ],
        "arrows": [_ends(arrow, n_head) for arrow in picture.arrows],
        "hint": _PATH_HINT if picture.arrows else _HINT,
        "lead": ", to others than the first: ",
        "none": ": none, only at itself and at the first token",
    }


def map_header(picture: Thumbnails) -> dict[str, Any]:
    """Return the heads, tokens and colours of a map."""
    n_layer, n_head = picture.tiles.shape[:2]
    colors = output.page_outputs().colors
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
        "positions": list(map(tokens.position, range(len(picture.labels)))),
        "starts": picture.starts,
        **quantized_colors(colors.unit, colors),
    }


def _ends(arrow: Arrow, n_head: int) -> tuple[int, int, str]:
    """Return an arrow's two heads as numbers in the map, -1 for the input, and its label."""
    start, end = (-1 if at is None else at[0] * n_head + at[1] for at in (arrow.start, arrow.end))
    return start, end, arrow.written


def send_weights(weights: Array) -> str:
    """Send the weights (n_layer, nh, T, T) of every head, and return their name in the browser.

    Returns "" for more than 65,536 numbers, which aren't sent.
    """
    if weights.size > _MOST_NUMBERS:
        return ""
    numbers = weights.astype("<f4").tobytes()
    name = f"{crc32(numbers):08x}-{len(numbers)}"
    mount(message({"script": "head_picture.numbers", "name": name}, numbers), key="head_numbers")
    return name


def line_heads(head: int, more: Sequence[int]) -> list[int]:
    """Return the heads drawn as lines: ``head`` and the first of ``more`` that aren't ``head``.

    A head of ``more`` that becomes ``head`` reappears once another head is chosen.
    """
    return [head, *[n for n in more if n != head][: MOST_SOURCES - 1]]
