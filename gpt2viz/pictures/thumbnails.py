"""Every head of a model small enough to stand beside all the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpt2viz.arrays import Array
from gpt2viz.pictures.pooling import pool_by_maximum

#: Cells along one side of a thumbnail; a longer sentence is pooled to this many.
THUMBNAIL = 40


def thumbnails(layers: Iterable[Array]) -> Array:
    """Every head of every layer, (nh, T, T) each, shrunk: (n_layer, nh, side, side)."""
    return np.stack([[pool_by_maximum(head, THUMBNAIL) for head in layer] for layer in layers])
