"""Ranges: fixed for weights, symmetric for signed numbers, shared by what is compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpt2viz.pictures.panel import Panel
from gpt2viz.run.stages import Scale


def shared_range(panels: Sequence[Panel], scale: Scale) -> tuple[float, float]:
    """[0, 1] for weights, from 0 for amounts; else symmetric about 0. Holds every finite number."""
    if scale == "unit":
        return 0.0, 1.0
    peaks = [np.abs(p.values[np.isfinite(p.values)]).max(initial=0.0) for p in panels]
    peak = float(max([*peaks, *(p.least for p in panels)], default=0.0)) or 1.0
    return (0.0 if scale == "amount" else -peak), peak


def decimals(high: float) -> int:
    """Two, or as many as show two digits of the largest number."""
    return int(np.clip(1 - np.floor(np.log10(high)), 2, 8))
