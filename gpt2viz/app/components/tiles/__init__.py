"""Small matrices side by side on one canvas: all heads of a layer at a glance.

Plotly takes ten times as long to draw twelve of them. Range, colours and signs are those of
``pictures.plotly.heatmap``, which draws the same picture for those who save it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpt2viz.app import output
from gpt2viz.app.clicks import Cell, Dragged, answers
from gpt2viz.app.components import component
from gpt2viz.pictures.palette import SQUARES, Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.scales import decimals, shared_range
from gpt2viz.pictures.special import specials

_HTML = """
<div class="tiles" tabindex="0" role="application">
  <canvas data-part="canvas"></canvas>
  <div class="at" data-part="frame"></div>
  <div class="drag" data-part="band"></div>
  <div class="tip" data-part="tip" aria-live="polite"></div>
</div>
"""

_KEYS = (
    "All its numbers are in the menu, under Numbers. Arrow keys go from cell to cell, Page Up "
    "and Page Down from matrix to matrix, Enter chooses."
)

_draw = component(__name__, _HTML)


def draw(
    picture: Heatmaps,
    colors: Palette,
    *,
    key: str,
    tallest: int,
    choose: Callable[[Cell], None],
    drag: Callable[[Dragged], None],
) -> None:
    """Draw matrices of the same tokens, each at most ``tallest`` pixels high.

    ``choose`` is called with a cell that is clicked, and ``drag`` with the part that is dragged
    out.
    """
    height = (tallest + 60) * -(-len(picture.panels) // picture.n_columns)
    said = output.remember(replace(picture, height=height))
    header = _header(picture, colors) | {"alt": f"{said} {_KEYS}", "tallest": tallest}
    _draw(key=key, data=packed(header, picture.panels), **answers(key, choose, drag))


def _header(picture: Heatmaps, colors: Palette) -> dict[str, Any]:
    panels, row = picture.panels, picture.row
    one = panels[0]
    low, high = shared_range(panels, picture.scale)
    place = None if row is None else one.rows.place(row)
    kinds = [specials(panel, colors) for panel in panels]
    found = [any(kind[n].cells.any() for kind in kinds) for n in range(3)]
    return {
        "names": [panel.name for panel in panels],
        "titles": [panel.title for panel in panels],
        "part": [] if one.part is None else [str(one.part), one.part.short()],
        "rows": one.rows.plain_names(),
        "columns": one.columns.plain_names(),
        "rowEnds": one.rows.plain_ends(),
        "columnEnds": one.columns.plain_ends(),
        "down": one.rows.title,
        "wide": one.columns.title,
        "quantity": one.quantity,
        "low": low,
        "high": high,
        "decimals": decimals(high),
        "scale": colors.signed if picture.scale == "signed" else colors.unit,
        "special": [
            {**kind._asdict(), "cells": None, "there": there}
            for kind, there in zip(kinds[0], found, strict=True)
        ],
        "squares": SQUARES,
        "row": -1 if place is None else place,
        "line": colors.grid,
        "frame": colors.second,
        "across": picture.n_columns,
        "numbers": picture.numbers,
        "bar": picture.bar,
    }


def packed(header: dict[str, Any], panels: Sequence[Panel]) -> bytes:
    """A message: the header as JSON, n matrices of float32, and a bit a cell for what is masked.

    The JSON's length in bytes comes first, as 32 bits, and its end is filled up with spaces so
    that the numbers begin at a multiple of four. All little-endian.
    """
    said = json.dumps(header, allow_nan=False).encode()
    said += b" " * (-len(said) % 4)
    values = np.stack([panel.values for panel in panels]).astype("<f4")
    masked = np.zeros(values.shape, bool)
    for n, panel in enumerate(panels):
        if panel.masked is not None:
            masked[n] = panel.masked
    bits = np.packbits(masked, bitorder="little")
    return struct.pack("<I", len(said)) + said + values.tobytes() + bits.tobytes()
