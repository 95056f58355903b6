"""A slider through a training: a model's run of the sentence at each of its checkpoints.

All points computed so far are in the browser, so that dragging needs no server. When the slider
rests, the point goes into the address, and missing points are requested.
"""

from __future__ import annotations

from base64 import b64encode
from math import isfinite
from typing import Any

import numpy as np

from gpt2viz.app import output
from gpt2viz.app.components.attention import map_header
from gpt2viz.arrays import Array
from gpt2viz.pictures.canvas import header
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.picture import Heatmaps

#: Weights are sent as 16-bit numbers; this one stands for NaN.
_NAN_CODE = 65_535
#: The height of the map and of the large matrices, in pixels.
_TALL = 252
_MAP_ALT = "Every head. Arrow keys go from head to head, Enter chooses."
_LARGE_TALL = 196


def heads(picture: Thumbnails, large: Heatmaps) -> dict[str, Any]:
    """Return the map and the chosen head without their numbers, masked cells, and bars' colours."""
    colors = output.page_outputs().colors
    plain = {"chooses": False, "drags": False, "asks": [], "alt": large.what}
    return {
        "map": map_header(picture)
        | {"bare": True, "tallest": _TALL, "arrows": [], "alt": _MAP_ALT},
        "large": header(large, colors) | plain | {"tallest": _LARGE_TALL},
        "hidden": "".join("01"[int(cell)] for cell in picture.hidden.ravel()),
        "bars": colors.cases(2),
    }


def pack(tiles: Array) -> str:
    """Pack weights in [0, 1] as base64 of little-endian 16-bit numbers, NaN as the largest."""
    whole = np.round(np.nan_to_num(tiles, nan=1.0) * (_NAN_CODE - 1))
    return b64encode(np.where(np.isnan(tiles), _NAN_CODE, whole).astype("<u2").tobytes()).decode()


def number(value: float) -> float | None:
    """Return a number as the browser is sent it: None for NaN."""
    return value if isfinite(value) else None
