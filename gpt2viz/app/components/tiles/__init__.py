"""Small matrices side by side on one canvas: all heads of a layer at a glance.

Plotly takes ten times as long to draw twelve of them. Range, colours and signs are those of
``pictures.plotly.heatmap``, which draws the same panels for those who save the picture.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpt2viz.app import output
from gpt2viz.app.clicks import Cell, Dragged, answers
from gpt2viz.app.components import component
from gpt2viz.pictures.palette import SQUARES, Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.plotly.heatmap import heatmaps, specials
from gpt2viz.pictures.scales import decimals, shared_range
from gpt2viz.run.stages import Scale

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
    panels: Sequence[Panel],
    colors: Palette,
    *,
    key: str,
    alt: str,
    scale: Scale,
    tallest: int,
    n_columns: int = 1,
    row: int | None = None,
    numbers: int = 0,
    bar: str = "",
    choose: Callable[[Cell], None],
    drag: Callable[[Dragged], None],
) -> None:
    """Draw matrices of the same tokens on one scale, each at most ``tallest`` pixels high.

    ``alt`` is as for a picture; ``scale``, ``n_columns``, ``row``, ``numbers`` and ``bar`` are as
    for ``heatmaps``. ``choose`` is called with a cell that is clicked, and ``drag`` with the part
    that is dragged out.
    """
    height = (tallest + 60) * -(-len(panels) // n_columns)
    options: dict[str, Any] = {
        "scale": scale,
        "n_columns": n_columns,
        "row": row,
        "numbers": numbers,
        "bar": bar,
    }
    kept = [_alone(panel) for panel in panels]
    said = output.drawn(alt, partial(heatmaps, kept, colors, height=height, **options), panels)
    header = _header(panels, colors, scale, row) | {
        "alt": f"{said} {_KEYS}",
        "across": n_columns,
        "tallest": tallest,
        "numbers": numbers,
        "bar": bar,
    }
    _draw(key=key, data=packed(header, panels), **answers(key, choose, drag))


def _alone(panel: Panel) -> Panel:
    """The panel with numbers of its own: those of a run must not stay for its sake."""
    masked = None if panel.masked is None else panel.masked.copy()
    return replace(panel, values=panel.values.copy(), masked=masked)


def _header(
    panels: Sequence[Panel], colors: Palette, scale: Scale, row: int | None
) -> dict[str, Any]:
    one = panels[0]
    low, high = shared_range(panels, scale)
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
        "scale": colors.signed if scale == "signed" else colors.unit,
        "special": [
            {**kind._asdict(), "cells": None, "there": there}
            for kind, there in zip(kinds[0], found, strict=True)
        ],
        "squares": SQUARES,
        "row": -1 if place is None else place,
        "line": colors.grid,
        "frame": colors.second,
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
