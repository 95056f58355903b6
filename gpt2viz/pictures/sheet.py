"""A sheet of marks as SVG: texts, lines, rectangles, images and a caption, whatever they show."""

from __future__ import annotations

import base64
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from html import escape
from math import ceil

import numpy as np
from numpy.typing import NDArray

from gpt2viz.errors import ExportError
from gpt2viz.pictures.palette import Palette

FAMILY = "Arial, Helvetica, Liberation Sans, DejaVu Sans, sans-serif"
#: Pixels: the letters of names, the smallest letters, 6 points, and the margin at the edges.
FONT_SIZE, MIN_FONT_SIZE, MARGIN = 11, 8, 8
#: The height of a line, as a multiple of the letters'.
LINE = 1.3
#: Image pixels for each pixel of the page: about 300 to the inch.
_PIXEL_RATIO = 3
#: Characters that XML can't hold.
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def caption_lines(paragraphs: Iterable[str], width: float, size: float) -> list[str]:
    """Wrap paragraphs into the lines of a caption."""
    return [line for text in paragraphs for line in wrap(text, width - 2 * MARGIN, size)]


class Sheet:
    """Marks on a page ``width`` pixels wide, whose letters are ``ratio`` times the usual size."""

    def __init__(self, width: float, colors: Palette, ratio: float = 1) -> None:
        self.width, self.height, self.colors, self.ratio = width, 0.0, colors, ratio
        self.parts: list[str] = []

    def size(self, letters: float) -> float:
        """The size here of letters that are usually ``letters`` tall."""
        return max(MIN_FONT_SIZE, letters * self.ratio)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        anchor: str = "start",
        *,
        turned: bool = False,
        fill: str = "",
        bold: bool = False,
    ) -> None:
        """Draw a line of text, anchored at a point of its baseline: start, middle or end."""
        turn = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" text-anchor="{anchor}" '
            f'fill="{fill or self.colors.ink}"{weight}{turn}>{escape_xml(text)}</text>'
        )

    def words(self, x: float, y: float, words: Sequence[tuple[str, bool]], size: float) -> None:
        """Draw a line of words, some of them marked."""
        mark = f'<tspan font-weight="bold" fill="{self.colors.second}">{{}}</tspan>'
        line = " ".join(mark.format(escape_xml(w)) if on else escape_xml(w) for w, on in words)
        self.parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{self.colors.ink}">'
            f"{line}</text>"
        )

    def rect(
        self,
        x: float,
        y: float,
        wide: float,
        tall: float,
        *,
        fill: str = "none",
        line: str = "none",
        width: float = 1,
    ) -> None:
        """Draw a rectangle, filled or as a frame."""
        self.parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(tall)}" '
            f'fill="{fill}" stroke="{line}" stroke-width="{_n(width)}"/>'
        )

    def line(
        self, *points: tuple[float, float], color: str, width: float = 1, dash: Sequence[int] = ()
    ) -> None:
        """Draw a line through some points."""
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        dashed = f' stroke-dasharray="{" ".join(map(str, dash))}"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" '
            f'stroke-width="{_n(width)}"{dashed}/>'
        )

    def image(self, x: float, y: float, wide: float, tall: float, cells: NDArray[np.uint8]) -> None:
        """Draw cells in colours (rows, columns, 3), each as a block of one colour."""
        fine = cells
        for axis, pixels in enumerate((tall, wide)):  # so that smoothing blurs a pixel, not a cell
            fine = fine.repeat(ceil(_PIXEL_RATIO * pixels / cells.shape[axis]), axis=axis)
        self.parts.append(
            f'<image x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(tall)}" '
            'preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{base64.b64encode(png(fine)).decode()}"/>'
        )

    def insert(self, drawing: str, height: float) -> None:
        """Append another SVG, ``height`` pixels tall, scaled by the ``ratio``."""
        turn = f"translate(0 {_n(self.height)}) scale({_n(self.ratio)})"
        self.parts.append(f'<g transform="{turn}">{drawing}</g>')
        self.height += height * self.ratio

    def end(self, caption: Iterable[str], height: int | None, under: float) -> None:
        """Write a caption, and end the sheet ``under`` pixels below it, or at a ``height``.

        Raises ``ExportError`` if that is too small for all of it.
        """
        size = self.size(FONT_SIZE)
        for line in caption_lines(caption, self.width, size):
            self.height += LINE * size
            self.text(MARGIN, self.height, line, size)
        least = ceil(self.height + under)
        if height is not None and height < self.height:
            raise ExportError(f"This picture is at least {least} pixels tall, not {height}.")
        self.height = least if height is None else height

    def svg(self, *heads: str) -> str:
        """The file's text, with the elements ``heads`` first."""
        size = f'width="{_n(self.width)}" height="{_n(self.height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_n(self.width)} '
            f'{_n(self.height)}" font-family="{FAMILY}" style="white-space:pre">'
            f'{"".join(heads)}<rect width="100%" height="100%" fill="{self.colors.unit[0][1]}"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An image (height, width, 3) as a PNG file."""
    height, width, _ = pixels.shape
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each begins with its filter, none
    parts = {
        b"IHDR": struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0),
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*part) for part in parts.items())


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """A part of a PNG file."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def escape_xml(text: str) -> str:
    """Escape plain text for XML; a character that XML can't hold becomes U+FFFD."""
    return escape(_UNWRITABLE.sub("\ufffd", text))


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def wrap(text: str, room: float, size: float) -> list[str]:
    """Wrap a text into lines of ``room`` pixels, for letters of ``size``; at spaces if possible.

    Without room, each letter has a line.
    """
    lines: list[str] = []
    line = ""
    for word in re.split(r"(?<=[ \n\t])", text):
        while text_width(line + word.rstrip(), size) > max(room, 0):
            if not line:  # one word, such as a text without spaces, is wider than a line
                fits = next(
                    (n for n in range(len(word), 1, -1) if text_width(word[:n], size) <= room), 1
                )
                line, word = word[:fits], word[fits:]
            lines, line = [*lines, line.rstrip()], ""
        line += word
    return [*lines, line] if line else lines


def text_width(text: str, size: float) -> float:
    """The largest width of a text in pixels: that in DejaVu Sans, wider than the other fonts."""
    return size * sum(map(_letter, text))


def _letter(char: str) -> float:
    """A letter's width as a share of its size."""
    if unicodedata.east_asian_width(char) in "WF" or char in "mwMW@%…":
        return 1.0
    if char in " \u00a0ijlftrI.,:;·'|!()[]-":
        return 0.41
    return 0.78 if char.isupper() else 0.64
