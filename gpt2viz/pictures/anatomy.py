"""Pictures of a model itself: where its parameters are, and how similar its positions are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpt2viz.arrays import Array
from gpt2viz.labels import percent
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Bars, Case, Role
from gpt2viz.pictures.pooling import block_starts, farthest_from_0

#: The number of similarities held at once before they are pooled.
_CELLS = 2**22

_ROLE: dict[str, Role] = {
    "embeddings": "accent",
    "attention": "value",
    "MLP": "second",
    "norms": "ink",
    "unembedding": "nan",
}


def part_bars(
    what: str, names: Sequence[str], groups: Sequence[str], values: Sequence[int], quantity: str
) -> Bars:
    """One bar per part, from top to bottom, coloured by its group, with its share of the total."""
    whole = sum(values) or 1
    cases = []
    for group in dict.fromkeys(groups):
        own = [n for n, its in enumerate(groups) if its == group]
        cases.append(
            Case(
                name=group,
                at=own,
                values=[float(values[n]) for n in own],
                role=_ROLE[group],
                written=[percent(values[n] / whole, 1) for n in own],
                hover=[f"{names[n]}\n{values[n]:,} {quantity}" for n in own],
            )
        )
    return Bars(what, names, cases, quantity, across=True)


def similarity_map(vectors: Array, size: int) -> Panel:
    """Cosine similarity of every pair of rows of (n, C), as a panel of at most (size, size).

    Beyond ``size`` rows a cell is its block's number farthest from 0. A row of zeros has no
    direction: its similarities are NaN. Computed in bands, so that no array is (n, n).
    """
    n, unit = len(vectors), _directions(vectors)
    starts = block_starts(n, size)
    per_band = max(1, _CELLS * len(starts) // n**2)
    bands = []
    for k in range(0, len(starts), per_band):
        rows = starts[k : k + per_band]
        stop = (*starts, n)[k + len(rows)]
        cosines = np.clip(unit[rows[0] : stop] @ unit.T, -1, 1)
        bands.append(farthest_from_0(cosines, [row - rows[0] for row in rows], starts))
    axis = Axis("position", [str(k) for k in starts], starts, n)
    what = "cosine similarity"
    if len(starts) < n:
        what = f"farthest from 0: {what} of this block"
    return Panel("", np.concatenate(bands), axis, axis, name="positions", quantity=what)


def similarity_at(vectors: Array, distance: int) -> float:
    """The mean cosine similarity of rows ``distance`` apart; rows of zeros left out."""
    unit = _directions(vectors)
    apart = (unit[distance:] * unit[: len(unit) - distance]).sum(axis=1)
    return float(np.nanmean(apart)) if np.isfinite(apart).any() else float("nan")


def _directions(vectors: Array) -> Array:
    """Normalize every row to length 1; NaN if it is zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        unit: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
