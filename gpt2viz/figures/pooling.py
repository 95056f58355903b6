"""Long texts in small pictures: blocks of cells become one, which shows the largest of them."""

from __future__ import annotations

import dataclasses

import numpy as np

from gpt2viz.figures.panel import Axis, Matrix, Panel


def block_starts(n_tokens: int, size: int) -> list[int]:
    """Where each of ``size`` blocks begins; every token is one where all fit."""
    if size >= n_tokens:
        return list(range(n_tokens))
    return [n * n_tokens // size for n in range(size)]


def pool_by_maximum(matrix: Matrix, size: int) -> Matrix:
    """Shrink (T, T) to at most (size, size): each cell is the largest weight of its block.

    The maximum, so that a bright diagonal one cell wide stays visible. A matrix that fits is
    returned as it is.
    """
    T = matrix.shape[-1]
    if size >= T:
        return matrix
    starts = block_starts(T, size)
    return np.maximum.reduceat(np.maximum.reduceat(matrix, starts, axis=0), starts, axis=1)


def pool_panel(panel: Panel, size: int) -> Panel:
    """A panel of (T, T) weights shrunk to ``size``; a block is masked where all its cells are."""
    T = len(panel.rows.labels)
    if size >= T:
        return panel
    starts = block_starts(T, size)

    def side(axis: Axis) -> Axis:
        return Axis(
            axis.title, [axis.labels[n] for n in starts], [axis.position(n) for n in starts]
        )

    masked = panel.masked
    if masked is not None:
        masked = pool_by_maximum((~masked).astype(np.float32), size) == 0
    return dataclasses.replace(
        panel,
        values=pool_by_maximum(panel.values, size),
        rows=side(panel.rows),
        columns=side(panel.columns),
        quantity=f"largest {panel.quantity} of this block",
        masked=masked,
    )
