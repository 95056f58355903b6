"""The numbers of a layer in a file: whole or pooled, exact or in steps, deflated.

``attention.js`` reads them. A number in steps is ``low + step · code``, and a code has 16 bits: the
low bytes of all cells come first, then the high ones, which take hardly any room.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from typing import NamedTuple

import numpy as np

from gpt2viz.arrays import Array, Pairs
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.pooling import pool_panel

#: Steps between the smallest number and the largest.
STEPS = 1000
#: Codes of numbers that aren't finite.
LOWER, NAN, UPPER = range(65533, 65536)


class Stored(NamedTuple):
    """A layer (nh, ``rows``, ``columns``), each cell the number farthest from 0 of its block.

    ``step`` is 0 if the numbers are float32; ``error`` is the largest rounding error.
    """

    rows: int
    columns: int
    low: float
    step: float
    error: float
    text: str


def pool_heads(heads: Array, hidden: Pairs, side: int) -> Array:
    """Pool (nh, T, S) to at most ``side`` rows and columns, each cell the number farthest from 0 of
    its block; ``hidden`` (T, S) cells are left out."""
    rows, columns = (Axis("", [""] * size) for size in hidden.shape)
    panels = (Panel("", head, rows, columns, masked=hidden) for head in heads)
    return np.stack([pool_panel(panel, side).values for panel in panels])


def store(heads: Array, ends: tuple[float, float] | None, n_steps: int = STEPS) -> Stored:
    """Store a layer's numbers exactly, or in steps between the ``ends`` of all finite ones."""
    _, rows, columns = heads.shape
    if ends is None:
        return Stored(rows, columns, 0.0, 0.0, 0.0, deflate(heads.astype("<f4").tobytes()))
    low, high = ends
    step = (high - low) / n_steps or 1.0
    finite = np.isfinite(heads)
    whole = np.where(finite, heads, low).astype(np.float64)
    codes = np.rint((whole - low) / step).astype(np.uint16)
    error = float(np.abs(low + step * codes - whole).max())
    for code, cells in ((LOWER, heads < 0), (NAN, np.isnan(heads)), (UPPER, heads > 0)):
        codes[cells & ~finite] = code
    planes = (codes & 255).astype(np.uint8).tobytes() + (codes >> 8).astype(np.uint8).tobytes()
    return Stored(rows, columns, low, step, error, deflate(planes))


def deflate(content: bytes) -> str:
    """Deflate bytes to a text that needs no escaping in HTML: zlib's format (RFC 1950) in base 64.

    It searches only for runs of one byte: for numbers that comes closer to their entropy, in a
    tenth of the time, than a search for earlier matches.
    """
    packer = zlib.compressobj(strategy=zlib.Z_RLE, memLevel=9)
    return b64encode(packer.compress(content) + packer.flush()).decode()
