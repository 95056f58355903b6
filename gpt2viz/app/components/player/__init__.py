"""Frames that can be played, or walked through step by step; blocks glide from one to the next.

Every frame was computed here. The browser draws it, and what lies between two of them where the
reader hasn't asked for less motion. The frame that is shown goes into the address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from gpt2viz.app.components import component
from gpt2viz.pictures.frames import Frames, Mark
from gpt2viz.pictures.palette import Palette, shades

_SHADES = 255

_draw = component(__name__, '<div class="player" role="group"></div>')


def draw(
    drawn: Frames, colors: Palette, *, key: str, at: int, choose: Callable[[int], None]
) -> None:
    """Draw the frame ``at``, with the way to the others; ``choose`` is called with where one stops.

    The callback stays with the visitor: let it hold no run.
    """

    def stopped() -> None:
        if (sent := st.session_state[key].at) is not None:
            choose(int(sent))

    scales = {"unit": shades(colors.unit, _SHADES), "signed": shades(colors.signed, _SHADES)}
    frames = [
        {"caption": frame.caption, "marks": [_mark(one, colors, scales) for one in frame.marks]}
        for frame in drawn.frames
    ]
    data = {"alt": drawn.what, "lines": drawn.lines, "frames": frames, "at": at}
    _draw(key=key, data=data, on_at_change=stopped)


def _mark(mark: Mark, colors: Palette, scales: dict[str, list[str]]) -> dict[str, Any]:
    fill = ""
    if isinstance(mark.role, str) and mark.role in scales:
        low = -1 if mark.role == "signed" else 0
        share = min(max((mark.share - low) / (1 - low), 0), 1)
        fill = scales[mark.role][round(share * (_SHADES - 1))]
    elif mark.role != "":
        fill = colors.shade(mark.role, 4)
    return {
        "key": mark.key,
        "box": [round(n, 5) for n in (mark.x, mark.y, mark.wide, mark.tall)],
        "fill": fill,
        "ink": _ink(fill) if fill else "",
        "text": mark.text,
        "left": mark.left,
    }


def _ink(fill: str) -> str:
    """Dark or light, as can be read on a colour (WCAG 2.2, relative luminance)."""
    channels = (int(fill[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return "#1c2030" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#ffffff"
