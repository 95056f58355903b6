"""Cells without a colour on the scale: masked, NaN and infinite, three different things."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Mask, Panel


class Special(NamedTuple):
    """Cells whose colour is not on the scale, and what legend and pointer say of them.

    The ``other`` colour takes turns with the first, which the legend shows. The sign stands in
    the cell where others have their number, so that colour isn't all there is.
    """

    name: str
    color: str
    other: str
    cells: Mask
    text: str
    sign: str


def specials(panel: Panel, colors: Palette) -> tuple[Special, Special, Special]:
    """The masked, the NaN and the infinite cells of a panel; a later kind is drawn over others."""
    values = panel.values
    masked = np.zeros(values.shape, bool) if panel.masked is None else panel.masked
    infinite = np.isinf(values) & ~masked
    nan = "NaN: not a number"
    return (
        Special(
            panel.masked_name, colors.masked, colors.masked_other, masked, panel.masked_text, "×"
        ),
        Special(nan, colors.nan, colors.nan, np.isnan(values), nan, "NaN"),
        Special("infinite", colors.infinite, colors.infinite, infinite, "infinite", "∞"),
    )
