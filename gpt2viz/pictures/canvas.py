"""Pictures as messages for the canvases that scripts draw in a browser.

Range, colours and signs are those of ``pictures.svg``, which draws the same pictures for files.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array, Pairs
from gpt2viz.pictures.cells import decimals, shared_range, specials
from gpt2viz.pictures.every_head import HeadMaps, as_heatmaps
from gpt2viz.pictures.palette import SQUARES, ColorScale, Palette, shades
from gpt2viz.pictures.panel import FEW, Axis, Panel
from gpt2viz.pictures.picture import AROUND, Heatmaps

#: What the canvas of matrices draws.
Matrices = Heatmaps | HeadMaps


class Shown(NamedTuple):
    """The ``part`` of a text of ``n_tokens`` that pictures show: first query and stop, first key
    and stop; () for all of it.
    """

    part: tuple[int, ...]
    n_tokens: int


def header(picture: Matrices, colors: Palette, shown: Shown | None = None) -> dict[str, Any]:
    """The header of a message: colours, and names, stored once if panels share them.

    With ``shown``, the shown part of a text, the browser can show any other part of it.
    """
    laid = as_heatmaps(picture)
    panels = laid.panels
    kinds = [specials(panel, colors) for panel in panels]
    legend = {s.name: (s.color, s.other) for kind in kinds for s in kind if s.cells.any()}
    low, high = shared_range(panels, laid.scale)
    ranges = laid.ranges or [(low, high)] * len(panels)
    grids, numbers = _grids(laid)
    listed = [
        _panel(panel, grid, ends, empty=laid.lacks_numbers(panel))
        for panel, grid, ends in zip(panels, numbers, ranges, strict=True)
    ]
    down = -(-len(panels) // laid.n_columns)
    return {
        "panels": listed,
        "grids": grids,
        "decimals": decimals(high),
        "scale": colors.signed if laid.scale == "signed" else colors.unit,
        "special": [
            {"name": s.name, "color": s.color, "other": s.other, "sign": s.sign} for s in kinds[0]
        ],
        "legend": list(legend.items()) if laid.legend else [],
        "squares": SQUARES,
        "line": colors.grid,
        "frame": colors.second,
        "frames": [(*rows, *columns) for rows, columns in laid.frames],
        "rules": laid.rules,
        "across": laid.n_columns,
        "tallest": max(30, laid.height // down - AROUND),
        "numbers": laid.numbers,
        "plus": laid.plus,
        "bar": laid.bar,
        "ranged": laid.ranged,
    } | (_zooms(laid, shown) if shown and _can_be_cut(laid, shown) else {})


def _can_be_cut(picture: Heatmaps, shown: Shown) -> bool:
    """True if no cell is pooled, in the whole text either, so that any part can be cut out."""
    panels = picture.panels
    return not any(panel.blocks or (shown.part and panel.whole is None) for panel in panels)


def _zooms(picture: Heatmaps, shown: Shown) -> dict[str, Any]:
    """The data for cutting out another part of the text; whole panels too, if this is a part."""
    panels = [panel.whole or panel for panel in picture.panels]
    grids, numbers = _grids(whole := replace(picture, panels=panels))
    of_grid = dict(zip(numbers, panels, strict=True))
    fields: dict[str, Any] = {
        "zooms": {
            "part": shown.part or None,
            "end": shown.n_tokens,
            "row": picture.row,
            "column": picture.column,
            "few": FEW,
            "axes": [_axes(of_grid[grid]) for grid in range(len(grids))],
            "scale": picture.scale,
            "least": max(panel.least for panel in panels),
            "masked": [panel.masked_name for panel in panels],
            "legend": picture.legend,
            "grows": picture.grows,
        }
    }
    if shown.part:
        ends = shared_range(panels, whole.scale)
        listed = zip(panels, numbers, strict=True)
        drawn = [_panel(panel, grid, ends, empty=False) for panel, grid in listed]
        fields["wholes"] = {"panels": drawn, "grids": grids}
    return fields


def _axes(panel: Panel) -> dict[str, Any]:
    """The positions in the text of rows and columns, and their short names."""

    def ends(axis: Axis) -> list[Any]:
        return [[axis.position(n) for n in range(len(axis.labels))], axis.short()]

    return {"rows": ends(panel.rows), "columns": ends(panel.columns)}


def _grids(picture: Heatmaps) -> tuple[list[dict[str, Any]], list[int]]:
    """Every distinct set of names, and the index of each panel's."""
    grids: list[dict[str, Any]] = []
    known: dict[tuple[int, int], int] = {}  # by axes: 144 heads share the same two
    for panel in picture.panels:
        axes = id(panel.rows), id(panel.columns)
        if axes not in known:
            grid = _grid(picture, panel)
            if grid not in grids:
                grids.append(grid)
            known[axes] = grids.index(grid)
    return grids, [known[id(panel.rows), id(panel.columns)] for panel in picture.panels]


def _panel(panel: Panel, grid: int, ends: tuple[float, float], *, empty: bool) -> dict[str, Any]:
    """A panel's own fields, and the index of its ``grid``."""
    return {
        "name": panel.name,
        "title": panel.title,
        "part": [] if panel.part is None else [str(panel.part), panel.part.short()],
        "quantity": panel.quantity,
        "hidden": panel.masked_text,
        "empty": panel.masked_text if empty else "",
        "low": ends[0],
        "high": ends[1],
        "grid": grid,
        "words": [word for row in panel.words for word in row],
        "hover": [text for row in panel.hover for text in row],
    }


def _grid(picture: Heatmaps, panel: Panel) -> dict[str, Any]:
    """The names of rows and columns, and which of them are framed."""
    framed = picture.frame(panel)
    return {
        "rows": panel.rows.plain_names(),
        "columns": panel.columns.plain_names(),
        "rowEnds": panel.rows.plain_ends() if picture.ends[0] else [],
        "columnEnds": panel.columns.plain_ends() if picture.ends[1] else [],
        "rowTitle": panel.rows.title,
        "columnTitle": panel.columns.title,
        "square": panel.of_pairs,
        "frame": framed and (*framed[0], *framed[1]),
    }


def encode(header: dict[str, Any], panels: Sequence[Panel]) -> bytes:
    """A ``message`` of matrices in little-endian float32, and a bit for each cell, 1 if masked.

    If the header has ``wholes``, the same of the whole matrices follows, aligned to four bytes.
    """
    numbers = _numbers(panels)
    if "wholes" in header:
        numbers += bytes(-len(numbers) % 4) + _numbers([panel.whole or panel for panel in panels])
    return message(header, numbers)


def _numbers(panels: Sequence[Panel]) -> bytes:
    values = np.concatenate([panel.values.ravel() for panel in panels]).astype("<f4")
    hidden = np.concatenate([panel.hidden.ravel() for panel in panels])
    return values.tobytes() + np.packbits(hidden, bitorder="little").tobytes()


def message(header: dict[str, Any], numbers: bytes) -> bytes:
    """The message for a canvas: the ``header`` as JSON, then the ``numbers``.

    The JSON's length in bytes comes first, as 32 bits, little-endian. The JSON is padded with
    spaces so that the numbers begin at a multiple of four.
    """
    head = json.dumps(header, allow_nan=False).encode()
    head += b" " * (-len(head) % 4)
    return struct.pack("<I", len(head)) + head + numbers


#: Colours from weight 0 to 1; the three byte values above them are cells without such a weight.
_SHADES = 253
_MASKED, _NAN, _INFINITE = range(_SHADES, 256)


def quantize(tiles: Array, hidden: Pairs) -> NDArray[np.uint8]:
    """Quantize weights in [0, 1] to a byte per cell, (…, rows, columns): its colour's number.

    The shades from 0 to 1 come first, then ``hidden`` (rows, columns), NaN and infinite cells.
    """
    shades = np.nan_to_num(tiles).clip(0, 1) * np.float32(_SHADES - 1)
    shades = np.where(np.isinf(tiles), _INFINITE, shades.round())
    shades = np.where(hidden, _MASKED, shades)
    return np.where(np.isnan(tiles), _NAN, shades).astype(np.uint8)


def quantized_colors(scale: ColorScale, colors: Palette) -> dict[str, Any]:
    """The colours of ``quantize``'s numbers on a scale, of lines between cells, and of arrows."""
    return {
        "shades": shades(scale, np.linspace(0, 1, _SHADES)),
        "special": [
            (colors.masked, colors.masked_other),
            (colors.nan, colors.nan),
            (colors.infinite, colors.infinite),
        ],
        "line": colors.grid,
        "frame": colors.second,
    }
