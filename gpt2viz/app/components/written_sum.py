"""A computation written out from top to bottom: strips of numbers, arrows, results, a small table.

It is text and coloured HTML cells, so that each number can be hovered over and read aloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpt2viz.app.components import mount
from gpt2viz.arrays import Numbers
from gpt2viz.labels import numeral
from gpt2viz.pictures.palette import Palette, shades

#: One step of the computation, made by a function of this module.
Part = dict[str, Any]


def draw(parts: Sequence[Part], *, key: str) -> None:
    """Draw the steps from top to bottom."""
    mount({"script": "written_sum", "parts": list(parts)}, key=key)


def strip(name: str, token: str, values: Numbers, peak: float, colors: Palette, ink: str) -> Part:
    """Return numbers (n,) as coloured cells, on a scale from −``peak`` to ``peak``.

    ``ink`` is the colour of its ``name``; ``token`` is the token whose numbers they are, if any.
    """
    cells = [
        (shade, f"dimension {n}: {spell(value)}")
        for n, (value, shade) in enumerate(zip(values, _shades(values, peak, colors), strict=True))
    ]
    return {"kind": "strip", "name": name, "token": token, "cells": cells, "ink": ink}


def arrow(text: str) -> Part:
    """Return the operation between the step above and the step below."""
    return {"kind": "arrow", "text": text}


def result(name: str, value: float, model: float) -> Part:
    """Return a computed number, with the model's own value of it."""
    return {"kind": "result", "name": name, "value": spell(value), "model": spell(model)}


def table(
    columns: Sequence[str], rows: Sequence[tuple[Sequence[str], float]], chosen: int, bar: str
) -> Part:
    """Return rows of cells, each with a bar for its share; ``chosen`` is the highlighted row.

    ``bar`` is the colour of the bars.
    """
    listed = [(list(cells), float(np.nan_to_num(share))) for cells, share in rows]
    return {"kind": "table", "columns": columns, "rows": listed, "chosen": chosen, "bar": bar}


def note(text: str) -> Part:
    """Return a line in small letters."""
    return {"kind": "note", "text": text}


def spell(value: float) -> str:
    """Return a number with four decimal places and a true minus sign."""
    return numeral(value, ".4f")


def peak(*values: Numbers) -> float:
    """Return the largest finite absolute value, or 1 if that is 0."""
    sizes = np.abs(np.concatenate(values))
    return float(sizes[np.isfinite(sizes)].max(initial=0)) or 1.0


def _shades(values: Numbers, peak: float, colors: Palette) -> list[str]:
    shares = np.nan_to_num(values, posinf=peak, neginf=-peak) / (2 * peak) + 0.5
    unusual = np.where(np.isnan(values), colors.nan, colors.infinite)
    return list(map(str, np.where(np.isfinite(values), shades(colors.signed, shares), unusual)))
