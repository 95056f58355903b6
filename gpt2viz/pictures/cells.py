"""The colours of cells: the range of a scale, and colours that aren't on it.

Ranges are fixed for weights, symmetric for signed numbers, and shared by pictures that are
compared. Masked, NaN and infinite cells are three different things.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpt2viz.arrays import Pairs
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.run.stages import Scale


def shared_range(panels: Sequence[Panel], scale: Scale) -> tuple[float, float]:
    """[0, 1] for weights, from 0 for amounts, else symmetric about 0; covers all finite numbers."""
    if scale == "unit":
        return 0.0, 1.0
    peaks = [np.abs(p.values[np.isfinite(p.values)]).max(initial=0.0) for p in panels]
    peak = float(max([*peaks, *(p.least for p in panels)], default=0.0)) or 1.0
    return (0.0 if scale == "amount" else -peak), peak


def decimals(high: float) -> int:
    """Two, or more if needed to show two digits of the largest number."""
    return int(np.clip(1 - np.floor(np.log10(high)), 2, 8))


class Special(NamedTuple):
    """Cells whose colour is not on the scale, and their texts for legend and pointer.

    ``color`` and ``other`` alternate. ``sign`` is in the cell where others have their number,
    so that colour isn't the only mark.
    """

    name: str
    color: str
    other: str
    cells: Pairs
    text: str
    sign: str


def specials(panel: Panel, colors: Palette) -> tuple[Special, Special, Special]:
    """The masked, the NaN and the infinite cells of a panel; a later kind is drawn over others."""
    values, masked = panel.values, panel.hidden
    infinite = np.isinf(values) & ~masked
    nan = "NaN: not a number"
    return (
        Special(
            panel.masked_name, colors.masked, colors.masked_other, masked, panel.masked_text, "×"
        ),
        Special(nan, colors.nan, colors.nan, np.isnan(values), nan, "NaN"),
        Special("infinite", colors.infinite, colors.infinite, infinite, "infinite", "∞"),
    )
