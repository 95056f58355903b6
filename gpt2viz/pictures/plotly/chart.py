"""Bars, curves, points and wiring as Plotly's JSON, which ``app/scripts/chart.js`` draws.

It doesn't need Plotly itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpt2viz.pictures.circuits import Wiring
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.picture import Bars, Curves, Lens, Picture, Points
from gpt2viz.pictures.plotly import wiring
from gpt2viz.pictures.plotly.lens import draw_curves as draw_lens
from gpt2viz.pictures.plotly.series import draw_bars, draw_curves, draw_points

#: The function that draws each kind, all but matrices.
CHARTS: dict[type[Picture], Callable[..., dict[str, Any]]] = {
    Bars: draw_bars,
    Curves: draw_curves,
    Lens: draw_lens,
    Points: draw_points,
    Wiring: wiring.draw,
}


def chart(picture: Picture, colors: Palette, **options: Any) -> dict[str, Any]:
    """A picture other than matrices in these colours, ready for JSON: ``data`` and ``layout``.

    ``options`` are those of the kind's own function. NaN and infinite numbers become None.
    """
    made = CHARTS[type(picture)](picture, colors, **options)
    ends = ({side: _to_list(trace[side]) for side in ("x", "y")} for trace in made["data"])
    traces = [trace | end for trace, end in zip(made["data"], ends, strict=True)]
    return {"data": traces, "layout": made["layout"]}


def _to_list(values: Any) -> list[Any]:
    """A list of names as they are, or of numbers with None for those that JSON lacks."""
    listed: list[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in listed]
