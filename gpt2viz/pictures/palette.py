"""The colours of every picture, for a light and a dark page.

One sequential scale for weights in [0, 1] and one diverging scale for signed numbers: blue and
orange, which colour-blind readers can distinguish. Zero has the page's own background, so that ink
means magnitude. A masked cell holds no magnitude: it is a chessboard of two greys.

A difference is always **the second minus the first**, and of two cases in one picture the first
is orange and the second blue: so blue means the second in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt2viz.arrays import Array, Pairs

ColorScale = list[tuple[float, str]]

#: Text on a colour. Either black or white has a contrast of 4.5:1 with any colour
#: (WCAG 2.2, 1.4.3); of two softer colours sometimes neither would be readable.
BLACK, WHITE = "#000000", "#ffffff"

#: Dashes that distinguish lines of one picture, in the order of their colours: the lengths of
#: strokes and gaps in pixels, on pages and in files alike.
DASHES = {
    "solid": (),
    "dash": (9, 6),
    "dot": (2, 4),
    "dashdot": (9, 4, 2, 4),
    "longdash": (14, 6),
    "longdashdot": (14, 5, 2, 5),
}
#: The points of two cases of one picture.
POINTS = ("circle", "diamond-open")
#: The names of the signed scale's upper and lower half, on a light and a dark page.
UPPER, LOWER = "blue", "orange"
#: The most squares of the masked cells' chessboard along a side.
SQUARES = 32


@dataclass(frozen=True)
class Palette:
    """``masked``, ``nan`` and ``infinite`` are for cells that hold no drawable number.

    Masked cells alternate ``masked`` and ``masked_other``. ``sources`` distinguish cases that
    share one picture; see ``cases``.
    """

    ink: str
    grid: str
    accent: str
    second: str
    masked: str
    masked_other: str
    nan: str
    infinite: str
    unit: ColorScale
    signed: ColorScale
    query: str
    key: str
    value: str
    sources: tuple[str, str, str, str]

    def cases(self, count: int) -> tuple[str, ...]:
        """Colours for up to four cases in one picture, in their order."""
        return (self.accent,) if count == 1 else self.sources[:count]

    def shade(self, role: str | int, count: int) -> str:
        """The colour of a role: a field's name, or the number of one of ``count`` cases."""
        return self.cases(count)[role] if isinstance(role, int) else getattr(self, role)

    @property
    def of_page(self) -> dict[str, str]:
        """The colours of the page around pictures, by Streamlit's names for them."""
        return {
            "background-color": self.unit[0][1],
            "text-color": self.ink,
            "border-color": self.grid,
            "primary-color": self.accent,
        }


LIGHT = Palette(
    ink="#1c2030",
    grid="#d8dbe6",
    accent="#3550c8",
    second="#c4500b",
    masked="#e2eae2",
    masked_other="#e2e4e2",
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
    sources=("#c4500b", "#3550c8", "#0b7a53", "#8a2c8f"),
)

DARK = Palette(
    ink="#e8eaf2",
    grid="#363b4d",
    accent="#93a8ff",
    second="#ff9d57",
    masked="#1e262c",
    masked_other="#242630",
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
    sources=("#ff9d57", "#93a8ff", "#63d3a4", "#e79be3"),
)


def chessboard(cells: Pairs) -> Array:
    """Alternate 0 and 1 where ``cells`` (rows, columns) are True, else NaN: for the masked greys.

    A square is one cell, or several if they are small.
    """
    row, column = np.indices(cells.shape) // max(1, max(cells.shape) // SQUARES)
    return np.where(cells, (row + column) % 2, np.nan).astype(np.float32)


def mix(scale: ColorScale, shares: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """The colours of a scale at ``shares`` (…) of the way from one end to the other: (…, 3)."""
    stops, colors = zip(*scale, strict=True)
    channels = zip(*map(rgb, colors), strict=True)
    colored = np.stack([np.interp(shares, stops, channel) for channel in channels], axis=-1)
    return colored.round().astype(np.uint8)


def shades(scale: ColorScale, shares: NDArray[np.floating[Any]]) -> list[str]:
    """The same at ``shares`` (n,), as "#rrggbb" each."""
    return [f"#{color.tobytes().hex()}" for color in mix(scale, shares)]


def rgb(color: str) -> tuple[int, int, int]:
    """Red, green and blue of "#rrggbb", from 0 to 255 each."""
    red, green, blue = bytes.fromhex(color[1:])
    return red, green, blue


def luminance(color: str) -> float:
    """The relative luminance of "#rrggbb", from 0 to 1 (WCAG 2.2)."""
    shares = [channel / 255 for channel in rgb(color)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink(fill: str) -> str:
    """Black or white, whichever has the larger contrast with a colour."""
    return BLACK if luminance(fill) > 0.179 else WHITE


def palette(dark: bool) -> Palette:
    """The colours for a dark or a light page."""
    return DARK if dark else LIGHT
