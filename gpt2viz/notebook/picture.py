"""A picture that a model read: its pixels, and the keys that are its patches."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from gpt2viz.errors import AttentionError
from gpt2viz.extras import require
from gpt2viz.notebook.given import Given
from gpt2viz.notebook.stored import deflate

#: The most pixels along the longer side, and the most keys, such as [CLS], before the patches.
SIDE, LEADING = 384, 8


def picture(image: Any, grid: Any, data: Given) -> tuple[dict[str, Any], dict[str, str]]:
    """The data of the page's script, and its pixels as a part; both empty without an ``image``.

    Patches are the keys that a processor marked, or the last ones, in a square if no ``grid`` is
    given. Raises ``AttentionError`` if they don't fit.
    """
    if image is None:
        return {}, {}
    with require("A picture", "notebook"):
        from PIL import Image
    try:
        given = Image.open(image) if isinstance(image, str | Path) else image
        given = given if isinstance(given, Image.Image) else Image.fromarray(given)
        pixels = given.convert("RGB")
    except (OSError, AttributeError, TypeError, ValueError):
        raise AttentionError(
            "The image can't be read: give a path, one of Pillow's, or an array of bytes, "
            "(height, width, 3)."
        ) from None
    pixels.thumbnail((SIDE, SIDE))
    keys = range(len(data.keys)) if data.patches is None else data.patches
    rows, columns = grid or (isqrt(len(keys)), isqrt(len(keys)))
    before = len(keys) - rows * columns
    if rows * columns <= 0 or not 0 <= before <= (LEADING if data.patches is None else 0):
        raise AttentionError(
            f"{len(keys)} keys aren't {rows} × {columns} patches: say how many rows and columns of "
            "them there are, grid=(rows, columns)."
        )
    width, height = pixels.size
    about: dict[str, Any] = {"width": width, "height": height, "rows": rows, "columns": columns}
    about |= {"keys": list(keys[before:]), "query": len(data.queries) - 1 if data.patches else 0}
    return {"picture": about}, {"pixels": deflate(np.asarray(pixels).tobytes())}
