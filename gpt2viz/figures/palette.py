"""The colours of every picture, for a light and a dark page.

One sequential scale for weights in [0, 1] and one diverging scale for signed numbers: blue and
orange, which colour-blind readers tell apart. Zero has the page's own background, so that ink
means magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ColorScale = list[tuple[float, str]]

#: Lines of one picture are told apart by these too, in the order of their colours.
DASHES = ("solid", "dash", "dot", "dashdot")
#: Two cases of one picture are told apart by these too: what fills their bars, and their points.
FILLS = ("", "\\")
POINTS = ("circle", "diamond-open")


@dataclass(frozen=True)
class Palette:
    """``masked``, ``nan`` and ``infinite`` are for cells that hold no drawable number.

    ``sources`` tell matrices apart whose lines share one picture.
    """

    ink: str
    grid: str
    accent: str
    second: str
    masked: str
    nan: str
    infinite: str
    unit: ColorScale
    signed: ColorScale
    query: str
    key: str
    value: str
    sources: tuple[str, str, str, str]


LIGHT = Palette(
    ink="#1c2030",
    grid="#d8dbe6",
    accent="#3550c8",
    second="#c4500b",
    masked="#dcdee6",
    nan="#d6249f",
    infinite="#0b0d12",
    unit=[
        (0.0, "#ffffff"),
        (0.15, "#d5defb"),
        (0.4, "#8aa3f2"),
        (0.7, "#3f5fd6"),
        (1.0, "#16236b"),
    ],
    signed=[
        (0.0, "#8f3600"),
        (0.25, "#e58a45"),
        (0.5, "#ffffff"),
        (0.75, "#6c8cee"),
        (1.0, "#16236b"),
    ],
    query="#2457c5",
    key="#b4480a",
    value="#0b7a53",
    sources=("#3550c8", "#b4480a", "#0b7a53", "#8a2c8f"),
)

DARK = Palette(
    ink="#e8eaf2",
    grid="#363b4d",
    accent="#93a8ff",
    second="#ff9d57",
    masked="#333849",
    nan="#ff5fc8",
    infinite="#ffe14d",
    unit=[
        (0.0, "#12141c"),
        (0.15, "#202f6b"),
        (0.4, "#3c57c4"),
        (0.7, "#88a2fb"),
        (1.0, "#f2f5ff"),
    ],
    signed=[
        (0.0, "#ffcf9e"),
        (0.25, "#b8631c"),
        (0.5, "#12141c"),
        (0.75, "#3c57c4"),
        (1.0, "#d5deff"),
    ],
    query="#8db4ff",
    key="#ffab73",
    value="#63d3a4",
    sources=("#93a8ff", "#ff9d57", "#63d3a4", "#e79be3"),
)


def filled(color: str, fill: str | Sequence[str]) -> dict[str, Any]:
    """How bars look: full, or hatched within an edge, so that a thin one is still seen."""
    pattern = {"shape": fill, "size": 6, "solidity": 0.35}
    return {"color": color, "line": {"color": color, "width": 1}, "pattern": pattern}


def palette(dark: bool) -> Palette:
    """The colours for a dark or a light page."""
    return DARK if dark else LIGHT
