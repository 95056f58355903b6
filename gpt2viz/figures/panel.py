"""One matrix with the names of its rows and columns: what a heatmap is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpt2viz.labels import markup_safe, shorten

Matrix = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Axis:
    """Names along one side: one label a row or column, and what they are ("query", "key").

    Up to ``fit`` labels have room where the picture is alone.
    """

    title: str
    labels: Sequence[str]
    fit: int = 48

    def names(self) -> list[str]:
        """The labels told apart by position: Plotly merges equal ones without a word."""
        names = (markup_safe(text) for text in self.labels)
        return [text if text == str(n) else f"{n} {text}" for n, text in enumerate(names)]

    def ticks(self, n_beside: int, width: int) -> dict[str, list[str] | list[int]]:
        """Every label where they fit with ``n_beside`` pictures in a row, else every n-th."""
        step = -(-len(self.labels) * n_beside // self.fit)
        places = list(range(0, len(self.labels), step))
        texts = [markup_safe(shorten(self.labels[n], width)) for n in places]
        return {"tickvals": places, "ticktext": texts}


@dataclass(frozen=True)
class Panel:
    """One matrix (rows, columns) to draw.

    ``title`` names exactly what is drawn. ``masked`` marks the cells that the mask forbids;
    ``masked_text`` says what they hold. ``name`` travels with a click on a cell.
    """

    title: str
    values: Matrix
    rows: Axis
    columns: Axis
    name: str = ""
    masked: Mask | None = None
    masked_text: str = "masked: this key comes later, its weight is exactly 0"
