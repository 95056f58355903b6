"""The curves of a logit lens, on the rows of its matrix."""

from __future__ import annotations

from typing import Any

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import ENTROPY, LENS_ROW, RANK, Lens

#: The left and the right half, in shares of the width.
_HALVES = (0, 0.46), (0.54, 1)
#: The axes of ranks and of bits.
_RANKS: dict[str, Any] = {"title": {"text": "1 = first"}, "range": [-0.1, None]}
_RANKS |= {"type": "log", "tickangle": 0}
_BITS = {"rangemode": "tozero"}
#: Where the canvas begins the first row of a matrix with a title of one line, in pixels.
_TITLE = 20
#: Numbers and their title below curves, and a legend below these, in pixels.
_NUMBERS, _LEGEND = 60, 30


def draw_curves(picture: Lens, colors: Palette, *, named: bool = True) -> dict[str, Any]:
    """Rank and entropy alone, in rows as high as those of the matrix on the canvas beside them.

    Rows are ``named`` unless that matrix is there.
    """
    rows = {
        "type": "category",
        "range": [len(picture.panel.values) - 0.5, -0.5],
        "showgrid": False,
    }
    bottom = _NUMBERS + _LEGEND * any(reading.name for reading in picture.readings)
    layout: dict[str, Any] = {
        "xaxis": {"domain": _HALVES[0]} | _RANKS,
        "xaxis2": {"domain": _HALVES[1]} | _BITS,
        "yaxis": rows | {"showticklabels": named},
        "yaxis2": rows | {"matches": "y", "showticklabels": False},
        "annotations": [
            {"text": text, "x": sum(half) / 2}
            for text, half in zip((RANK, ENTROPY), _HALVES, strict=True)
        ],
        "legend": {"yref": "container"},  # under the numbers
        "height": _TITLE + LENS_ROW * len(picture.panel.values) + bottom,
        "margin": {"l": 8, "r": 8, "t": _TITLE, "b": bottom, "autoexpand": named},
    }
    return {"data": _curves(picture, colors), "layout": layout}


def _curves(picture: Lens, colors: Palette) -> list[dict[str, Any]]:
    """Every reading's rank and entropy; the legend names a reading once."""
    traces = []
    for reading in picture.readings:
        name, steps = reading.name, picture.panel.rows.plain_names()
        ranks = reading.rank, [f"rank {rank:,}" for rank in reading.rank]
        bits = reading.entropy, [f"{entropy:.3f} bits" for entropy in reading.entropy]
        for axis, (values, texts), role in zip(
            ("", "2"), (ranks, bits), reading.roles, strict=True
        ):
            line = {
                "type": "scatter",
                "x": values,
                "y": steps,
                "xaxis": f"x{axis}",
                "yaxis": f"y{axis}",
                "mode": "lines+markers",
                "line": {"color": colors.shade(role, len(picture.readings))},
                "marker": {"symbol": reading.point},
                "name": name,
                "hovertext": [
                    f"{step}\n{text}\n{name}".rstrip()
                    for step, text in zip(steps, texts, strict=True)
                ],
                "showlegend": bool(name) and not axis,
            }
            traces.append(line)
    return traces
