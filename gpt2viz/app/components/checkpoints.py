"""A slider through a training: a model's run of the sentence at each of its checkpoints.

All points computed so far are in the browser, so that dragging needs no server. When the slider
rests, the point goes into the address, and missing points are requested.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import streamlit as st

from gpt2viz.app import output
from gpt2viz.app.components import mount
from gpt2viz.app.components.attention import map_header
from gpt2viz.arrays import Array
from gpt2viz.pictures.canvas import header
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.palette import DASHES
from gpt2viz.pictures.picture import Curves, Heatmaps

#: Weights are sent as 16-bit numbers; this one stands for NaN.
_NAN_CODE = 65_535
#: The height of the map and of the large matrices, in pixels.
_TALL = 252
_MAP_ALT = "Every head. Arrow keys go from head to head, Enter chooses."
_LARGE_TALL = 196


@dataclass(frozen=True)
class Seen:
    """The numbers drawn for one checkpoint, or for the model itself.

    ``tiles`` (n_layer, nh, side, side) are its weights; ``following`` the labels of the most
    probable next tokens, with their probabilities, and ``lens`` the most probable after each
    layer. ``loss`` is the sentence's, in nats per token, NaN for a single token.
    """

    tiles: Array
    following: Sequence[tuple[str, float]]
    lens: Sequence[tuple[str, float]]
    loss: float


def draw(
    picture: Thumbnails,
    large: Heatmaps,
    when: Sequence[str],
    steps: Sequence[int],
    seen: Mapping[int, Seen],
    final: Seen,
    curves: Mapping[str, Curves],
    titles: Mapping[str, str],
    formed: Sequence[str],
    *,
    at: int,
    more: bool,
    alt: str,
    key: str,
    choose_step: Callable[[int], None],
    choose_head: Callable[[int, int], None],
) -> None:
    """Draw the points of a training; ``at`` is the step shown first.

    ``picture`` is the map of all heads at that step, ``large`` the chosen head there and in the
    model itself, and ``when`` describes each of the ``steps``; ``seen`` may lack some of them.
    ``curves`` are "loss" and "score", over the known steps, ``titles`` their titles, and ``formed``
    says what is new at each step. The page reruns for steps that ``seen`` lacks and for ``more``.
    Screen readers announce ``alt``.
    """
    n_head = picture.tiles.shape[1]

    def on_step() -> None:
        if (sent := st.session_state[key].step) is not None:
            choose_step(int(sent))

    def on_head() -> None:
        if (sent := st.session_state[key].head) is not None:
            choose_head(*divmod(int(sent), n_head))

    data = {
        "script": "steps",
        **_points(picture, steps, seen, final),
        **_heads(picture, large),
        "alt": alt,
        "when": list(when),
        "at": list(steps).index(at),
        "more": more or len(seen) < len(steps),
        "curves": {name: _lines(chart, steps) for name, chart in curves.items()},
        "titles": dict(titles),
        "formed": list(formed),
    }
    changes = {"on_step_change": on_step, "on_head_change": on_head}
    mount(data, key=key, on_more_change=lambda: None, **changes)


def _heads(picture: Thumbnails, large: Heatmaps) -> dict[str, Any]:
    """Return the map and the chosen head without their numbers, and the colours of bars."""
    colors = output.page_outputs().colors
    plain = {"chooses": False, "drags": False, "asks": [], "alt": large.what}
    return {
        "map": map_header(picture)
        | {"bare": True, "tallest": _TALL, "arrows": [], "alt": _MAP_ALT},
        "large": header(large, colors) | plain | {"tallest": _LARGE_TALL},
        "bars": colors.cases(2),
    }


def _points(
    picture: Thumbnails, steps: Sequence[int], seen: Mapping[int, Seen], final: Seen
) -> dict[str, Any]:
    """Return the numbers of every point and of the model itself, and their labels."""
    listed = [seen.get(step) for step in steps]
    n_layer = len(picture.tiles)
    return {
        "steps": list(steps),
        "hidden": "".join("01"[int(cell)] for cell in picture.hidden.ravel()),
        "stages": ["embeddings", *(f"layer {n}" for n in range(n_layer))],
        "tiles": ["" if point is None else _pack(point.tiles) for point in listed],
        "next": [[] if point is None else list(point.following) for point in listed],
        "lens": [[] if point is None else list(point.lens) for point in listed],
        "loss": [None if point is None else _number(point.loss) for point in listed],
        "final": {
            "tiles": _pack(final.tiles),
            "next": list(final.following),
            "lens": list(final.lens),
            "loss": _number(final.loss),
        },
    }


def _pack(tiles: Array) -> str:
    """Pack weights in [0, 1] as base64 of little-endian 16-bit numbers, NaN as the largest."""
    whole = np.round(np.nan_to_num(tiles, nan=1.0) * (_NAN_CODE - 1))
    return b64encode(np.where(np.isnan(tiles), _NAN_CODE, whole).astype("<u2").tobytes()).decode()


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def _lines(picture: Curves, steps: Sequence[int]) -> dict[str, Any]:
    """Return curves as numbers at every step, None for missing ones."""
    count = len({curve.role for curve in picture.curves if isinstance(curve.role, int)})
    lines, colors = [], output.page_outputs().colors
    for curve in picture.curves:
        at = dict(zip(curve.x, curve.y, strict=True))
        values = [at.get(step) for step in steps]
        lines.append(
            {
                "name": curve.name,
                "color": colors.shade(curve.role, count),
                "dash": DASHES.index(curve.dash),
                "values": [None if v is None else _number(v) for v in values],
            }
        )
    return {"lines": lines, "highest": picture.highest}
