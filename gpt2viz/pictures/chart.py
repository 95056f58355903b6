"""Bars, curves, points, wiring and lenses as JSON, which ``app/scripts/chart.js`` draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gpt2viz.pictures.palette import DASHES, Palette
from gpt2viz.pictures.picture import ENTROPY, LENS_ROW, RANK, Lens, Picture
from gpt2viz.pictures.sheet import FAMILY


def chart(picture: Picture, colors: Palette, **options: Any) -> dict[str, Any]:
    """A picture other than matrices, ready for JSON: its fields, its ``kind`` and the look.

    Of a lens, the readings and the names of its rows. ``options`` are those of the kind's figure
    in ``app/scripts/figure.js``.
    """
    own: Any = picture
    if isinstance(picture, Lens):
        own = {"readings": picture.readings, "rows": picture.panel.rows.plain_names()}
        own |= {"row": LENS_ROW, "titles": (RANK, ENTROPY)}
    look = {"colors": _plain(colors), "dashes": DASHES, "family": FAMILY}
    return {"kind": type(picture).__name__, **_plain(own), **look, **options}


def _plain(value: Any) -> Any:
    """A value of JSON's types: dataclasses as objects, NaN and infinite numbers as None."""
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
