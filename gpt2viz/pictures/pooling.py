"""Long texts in small pictures: a block of cells becomes one, with the largest number."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from gpt2viz.arrays import Array, Pairs
from gpt2viz.pictures.panel import Axis, Panel, Viewport

#: Cells along one side of a large picture; a longer text is pooled to this many …
GRID = 256
#: … and to this many if a whole layer's heads are side by side, 200 pixels each.
GRID_OF_MANY = 64
#: Cells along one side of a thumbnail; a longer sentence is pooled to this many.
THUMBNAIL = 40

Cells = TypeVar("Cells", Array, Pairs)


def block_starts(n_tokens: int, size: int) -> list[int]:
    """The starts of ``size`` blocks; if all tokens fit, each is its own."""
    if size >= n_tokens:
        return list(range(n_tokens))
    return [n * n_tokens // size for n in range(size)]


def pool_by_maximum(matrix: Cells, size: int) -> Cells:
    """Shrink (T, S) to at most (size, size): each cell is the largest of its block.

    The maximum keeps a bright diagonal of one cell visible; of truths it says whether any is True.
    A matrix that fits is returned as it is.
    """
    if size >= max(matrix.shape):
        return matrix
    rows, columns = (block_starts(length, size) for length in matrix.shape)
    return _largest(matrix, rows, columns)


def thumbnails(layers: Iterable[Array]) -> Array:
    """Pool every head of every layer, (nh, T, T) each: (n_layer, nh, side, side)."""
    return np.stack([[pool_by_maximum(head, THUMBNAIL) for head in layer] for layer in layers])


def _largest(matrix: Cells, rows: list[int], columns: list[int]) -> Cells:
    """The largest number of every block that begins at these rows and columns.

    Rows are split first: down a column ``np.maximum.reduceat`` takes many times as long.
    """
    bands = np.stack([band.max(axis=0) for band in np.split(matrix, rows[1:])])
    return np.maximum.reduceat(bands, columns, axis=1)


def pool_panel(panel: Panel, size: int) -> Panel:
    """Pool a panel of any shape to at most ``size`` rows and columns.

    A block shows its number farthest from 0, masked cells left out; for weights the largest. It
    is masked if all its cells are. A panel that fits is returned as it is.
    """
    n_rows, n_columns = panel.values.shape
    if size >= max(n_rows, n_columns):
        return panel
    rows, columns = block_starts(n_rows, size), block_starts(n_columns, size)

    values, masked = panel.values, panel.masked
    if masked is not None:
        values = np.where(masked, np.float32(0), values)
        masked = ~pool_by_maximum(~masked, size)
    weights = values.min() >= 0
    shown = (_largest if weights else farthest_from_0)(values, rows, columns)
    return dataclasses.replace(
        panel,
        values=shown,
        rows=panel.rows.part(rows, panel.rows.stop),
        columns=panel.columns.part(columns, panel.columns.stop),
        quantity=f"{'largest' if weights else 'farthest from 0:'} {panel.quantity} of this block",
        masked=masked,
        head=None,
        blocks=True,
        whole=None,
    )


def farthest_from_0(matrix: Array, rows: list[int], columns: list[int]) -> Array:
    """The number farthest from 0 in every block that begins at these rows and columns."""
    high, low = _largest(matrix, rows, columns), -_largest(-matrix, rows, columns)
    return np.where(-low > high, low, high)


def crop(panel: Panel, rows: range, columns: range | None) -> Panel:
    """The part of a panel with the tokens at these positions of the text, down and across.

    ``columns=None`` keeps every column.
    """

    def cut(axis: Axis, window: range | None) -> tuple[slice, Axis]:
        if window is None:
            return slice(None), axis
        part = axis.rows_within(window)
        goes_on = part.stop < len(axis.labels)
        stop = axis.position(part.stop) if goes_on else axis.stop
        return slice(part.start, part.stop), axis.part(part, stop)

    (down, queries), (across, keys) = cut(panel.rows, rows), cut(panel.columns, columns)
    cut_out = panel.cells((down, across), queries, keys)
    return dataclasses.replace(cut_out, part=Viewport(rows, columns), whole=panel.whole or panel)
