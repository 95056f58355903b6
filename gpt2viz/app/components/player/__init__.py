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
from gpt2viz.pictures.palette import Palette, ink

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

    frames = [
        {"caption": frame.caption, "marks": [_mark(one, colors) for one in frame.marks]}
        for frame in drawn.frames
    ]
    data = {"alt": drawn.what, "lines": drawn.lines, "frames": frames, "at": at}
    _draw(key=key, data=data, on_at_change=stopped)


def _mark(mark: Mark, colors: Palette) -> dict[str, Any]:
    fill = mark.fill(colors)
    return {
        "key": mark.key,
        "box": [round(n, 5) for n in (mark.x, mark.y, mark.wide, mark.tall)],
        "fill": fill,
        "ink": ink(fill) if fill else "",
        "text": mark.text,
        "left": mark.left,
    }
