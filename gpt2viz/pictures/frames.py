"""Pictures that move: frames of blocks, laid out from computed numbers.

A player may move a block smoothly from its position in one frame to that in the next: blocks are
matched by their keys. What it shows between two frames isn't data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpt2viz.arrays import Array, Numbers, Pairs
from gpt2viz.labels import label, numeral, shorten
from gpt2viz.pictures.palette import Palette, shades
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Picture, Series

#: The share of the width before the blocks, for the names of rows.
_NAMES = 0.14
#: Steps of the colour scale of blocks.
_SHADES = 255
#: The height of a matrix's row in lines, and that of a row of split vectors.
_CELL, _ROW = 1.2, 0.8
#: The height of a plane in lines.
_PLANE = 11


@dataclass(frozen=True)
class Mark:
    """A block, or a word if it has no ``role``.

    ``x`` and ``wide`` are shares of the picture's width, ``y`` and ``tall`` are lines. ``role`` is
    "unit" or "signed" for a ``share`` of that scale, from 0 to 1 or from −1 to 1; else a colour's
    field in the palette, or the number of one of four cases. ``left`` aligns its ``text`` on the
    left and not in the middle.
    """

    key: str
    x: float
    y: float
    wide: float
    tall: float = 1
    role: str | int = ""
    share: float = 0
    text: str = ""
    left: bool = False

    def fill(self, colors: Palette) -> str:
        """Its colour, "#rrggbb"; "" for a word."""
        if self.role not in ("unit", "signed"):
            return "" if self.role == "" else colors.shade(self.role, 4)
        low = -1 if self.role == "signed" else 0
        share = min(max((self.share - low) / (1 - low), 0), 1)
        scale = colors.signed if self.role == "signed" else colors.unit
        return _steps(tuple(scale))[round(share * (_SHADES - 1))]


@lru_cache(maxsize=8)
def _steps(scale: tuple[tuple[float, str], ...]) -> list[str]:
    return shades(list(scale), np.linspace(0, 1, _SHADES))


@dataclass(frozen=True, eq=False)
class Frame:
    """One state: its ``marks``, its caption, and the numbers that are drawn."""

    caption: str
    marks: tuple[Mark, ...]
    matrices: tuple[Panel, ...] = ()
    series: tuple[Series, ...] = ()


@dataclass(frozen=True, eq=False)
class Still(Picture):
    """One frame as a picture of its own. ``lines`` is the height of its marks."""

    frame: Frame
    lines: float

    @property
    def matrices(self) -> tuple[Panel, ...]:
        """The frame's."""
        return self.frame.matrices

    @property
    def series(self) -> tuple[Series, ...]:
        """The frame's."""
        return self.frame.series


@dataclass(frozen=True)
class Frames:
    """States of one thing, in order. ``lines`` is the height of each."""

    what: str
    lines: float
    frames: tuple[Frame, ...]

    def still(self, at: int) -> Still:
        """The frame ``at`` as a picture."""
        what = f"{self.what}, step {at + 1} of {len(self.frames)}"
        return Still(what, self.frames[at], self.lines)


@dataclass(frozen=True)
class Stop:
    """A stop on a token's path: the length of the vector ``added`` last, and that of the sum.

    ``turned`` is the cosine with the vector before, if any, ``alike`` those with the ``nearest``
    tokens, which are (id, text).
    """

    caption: str
    added: float
    length: float
    turned: float | None
    nearest: Sequence[tuple[int, str]]
    alike: Sequence[float]


def closing_mask(
    states: Sequence[tuple[ArrayLike, ArrayLike]], words: Sequence[str], captions: Sequence[str]
) -> Frames:
    """Scores and weights (T, T) side by side, one frame per state; −∞ is drawn as masked.

    ``words`` are the T tokens, ``captions`` the frames' texts.
    """
    pairs = [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in states]
    peak = max(np.abs(x[np.isfinite(x)]).max(initial=0) for x, _ in pairs) or 1.0
    wide = (1 - _NAMES - 0.04) / (2 * len(words))
    second = _NAMES + 0.04 + wide * len(words)
    frames = []
    for (scores, weights), caption in zip(pairs, captions, strict=True):
        hidden = np.isneginf(scores)
        marks = [
            *_names(words, wide, second),
            *_cells("scores", scores, hidden, _NAMES, wide, "signed", peak),
            *_cells("weights", weights, hidden, second, wide, "unit", 1),
        ]
        both = ("scores", scores, "score"), ("weights", weights, "attention weight")
        matrices = tuple(_panel(*matrix, words, hidden) for matrix in both)
        frames.append(Frame(caption, tuple(marks), matrices))
    what = "Scores and weights, while the mask closes row by row"
    return Frames(what, 2 + _CELL * len(words), tuple(frames))


def _panel(
    title: str,
    values: Numbers,
    quantity: str,
    words: Sequence[str],
    hidden: Pairs,
) -> Panel:
    """One of the matrices as a panel."""
    axes = Axis("query", words), Axis("key", words)
    masked = hidden if hidden.any() else None
    return Panel(title, values.astype(np.float32), *axes, title, quantity, masked)


def _names(words: Sequence[str], wide: float, second: float) -> Iterator[Mark]:
    """The names around both matrices."""
    for title, left in (("scores", _NAMES), ("weights", second)):
        yield Mark(f"{title} title", left, 0, wide * len(words), text=title)
        for n, word in enumerate(words):
            yield Mark(f"{title} column {n}", left + n * wide, 1, wide, text=word)
    for n, word in enumerate(words):
        yield Mark(f"row {n}", 0, 2 + _CELL * n, _NAMES, _CELL, text=word, left=True)


def _cells(
    name: str,
    values: Numbers,
    hidden: Pairs,
    left: float,
    wide: float,
    role: str,
    peak: float,
) -> Iterator[Mark]:
    for (row, column), value in np.ndenumerate(values):
        box = left + column * wide, 2 + _CELL * row, wide, _CELL
        key = f"{name} {row} {column}"
        if hidden[row, column]:
            yield Mark(key, *box, "masked", text="0" if value == 0 else "−∞")
        else:
            yield Mark(key, *box, role, float(value) / peak, block_number(value))


def block_number(value: float) -> str:
    """Format a number for a block: two decimals, or three digits if it is large."""
    return numeral(value, ".2f" if abs(value) < 10 else ".3g")


class Mixture(NamedTuple):
    """T words with their weights (T,) and values (T, 2), and the mixture's ``ends`` (T + 1, 2): 0,
    and then its position after each word has added its share."""

    words: Sequence[str]
    weights: Array
    values: Array
    ends: Array


def mixing(both: tuple[Mixture, Mixture], name: str, axes: tuple[str, str]) -> Frames:
    """A mixture in the plane, which each word pulls in turn; then the mixture of other words.

    A word is the darker the larger its weight; the mixture has a ``name``.
    """
    first, second = both
    numbers = np.concatenate([first.values, first.ends, second.values, second.ends])
    low, span = numbers.min(axis=0), np.ptp(numbers, axis=0).max() or 1.0

    def mark(key: str, at: Array, role: str, share: float, text: str) -> Mark:
        x, y = (at - low) / span
        return Mark(key, 0.86 * float(x), (_PLANE - 1) * (1 - float(y)), 0.14, 1, role, share, text)

    def frame(mixture: Mixture, n: int, caption: str) -> Frame:
        words = zip(mixture.words, mixture.values, mixture.weights, strict=True)
        marks = [
            mark(f"word {n}", value, "unit", float(weight), word)
            for n, (word, value, weight) in enumerate(words)
        ]
        for key, x, text in (("up", 0, f"{axes[1]} ↑"), ("right", 0.8, f"{axes[0]} →")):
            marks.append(Mark(key, x, _PLANE, 0.2, text=text))
        marks.append(mark("mixture", mixture.ends[n], "accent", 1, name))
        numbers = (
            Series("weight", "bar", mixture.weights.tolist(), mixture.words),
            Series("value", "bar", mixture.ends[n].tolist(), axes),
        )
        return Frame(caption, tuple(marks), series=numbers)

    start = f"Each word stands at its value; {name} starts at 0."
    frames = [frame(first, 0, start)]
    for n, word in enumerate(first.words):
        at = ", ".join(map(block_number, first.ends[n + 1]))
        caption = f"“{word}” adds {block_number(first.weights[n])} of its value: now [{at}]."
        frames.append(frame(first, n + 1, caption))
    at, others = ", ".join(map(block_number, second.ends[-1])), " ".join(second.words[1:])
    swapped = f"The same word with “{others}”: now [{at}]."
    frames.append(frame(second, -1, swapped))
    return Frames(f"{name}, mixed of the values", _PLANE + 1, tuple(frames))


def merging_pieces(states: Sequence[Sequence[bytes]], captions: Sequence[str]) -> Frames:
    """A word's pieces after each merge, a frame per state: a block per piece, as wide as its bytes.

    The latest piece has another colour. The first state has the smallest pieces.
    """
    n_bytes = sum(map(len, states[0]))
    drawn, before = [], set(_byte_offsets(states[0]))
    for pieces, caption in zip(states, captions, strict=True):
        at_bytes = list(_byte_offsets(pieces))
        marks = [
            Mark(
                f"byte {start}",
                start / n_bytes,
                0.3,
                (len(piece) - 0.1) / n_bytes,
                _CELL,
                "unit" if (start, piece) in before else "accent",
                0.15,
                label(piece),
            )
            for start, piece in at_bytes
        ]
        drawn.append(Frame(caption, tuple(marks)))
        before = set(at_bytes)
    word = label(b"".join(states[0]))
    return Frames(f"The merges of {word}", 1 + _CELL, tuple(drawn))


def _byte_offsets(pieces: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each piece with the offset of its first byte in the word."""
    return zip(accumulate(map(len, pieces), initial=0), pieces, strict=False)


def splitting_heads(states: Sequence[ArrayLike], nh: int, captions: Sequence[str]) -> Frames:
    """Vectors split into heads and merged again: a block per token and head, to scale.

    ``states`` place each number: (T, C), (T, nh, hs), (nh, T, hs), (T, nh, hs), (T, C).
    """
    arrays = [np.asarray(state) for state in states]
    T, C = arrays[0].shape
    down = 1 if nh == 1 else 2 if nh <= 12 else 3  # rows of heads, once split
    frames = [
        Frame(caption, tuple(_blocks(array, T, C, nh, down if n == 2 else 0)))
        for n, (array, caption) in enumerate(zip(arrays, captions, strict=True))
    ]
    what = f"{C} channels of {T} tokens, split into {nh} heads and merged again"
    return Frames(what, down * (1 + _ROW * T), tuple(frames))


def _blocks(array: NDArray[np.int_], T: int, C: int, nh: int, down: int) -> Iterator[Mark]:
    """Each block at the position of its first number in ``array``; heads apart in rows ``down``,
    or together for 0."""
    hs, wide = C // nh, 0.92 * (1 - _NAMES) / nh
    gap = 0.08 * (1 - _NAMES) / max(nh - 1, 1)
    across = -(-nh // (down or 1))
    for token in range(T):
        for head in range(nh):
            at = [int(n) for n in np.argwhere(array == token * C + head * hs)[0]]
            if array.ndim == 2:
                x, y = _NAMES + gap * (nh - 1) / 2 + at[1] / hs * wide, 1 + _ROW * at[0]
            elif down:
                line, column = divmod(at[0], across)
                x = _NAMES + (column + 0.5) / across * (1 - _NAMES) - wide / 2
                y = 1 + line * (1 + _ROW * T) + _ROW * at[1]
            else:
                x, y = _NAMES + at[1] * (wide + gap), 1 + _ROW * at[0]
            text = str(head) if nh <= 12 else ""
            yield Mark(f"{token} {head}", x, y, wide, _ROW, head % 4, text=text)
    yield from _tokens(T, down or 1)
    if down:
        for head in range(nh):
            line, column = divmod(head, across)
            yield Mark(
                f"head {head}",
                _NAMES + column / across * (1 - _NAMES),
                line * (1 + _ROW * T),
                (1 - _NAMES) / across,
                text=f"head {head}" if across <= 6 else str(head),
            )


def _tokens(T: int, lines: int) -> Iterator[Mark]:
    for line in range(lines):
        for token in range(T):
            y = 1 + line * (1 + _ROW * T) + _ROW * token
            yield Mark(
                f"token {token} {line}", 0, y, _NAMES, _ROW, text=f"token {token}", left=True
            )


def way_through(stops: Sequence[Stop]) -> Frames:
    """A token's path through the residual stream: lengths and cosines as bars, a frame per stop."""
    sizes = [size for stop in stops for size in (stop.added, stop.length) if isfinite(size)]
    longest = max(sizes, default=0) or 1.0
    frames = [Frame(stop.caption, (*_bars(stop, longest),), series=_sizes(stop)) for stop in stops]
    lines = 4 + max(len(stop.nearest) for stop in stops)
    return Frames("A token's way through the residual stream", lines, tuple(frames))


def _sizes(stop: Stop) -> tuple[Series, Series]:
    """The numbers at one stop: two lengths, and cosines by what the stream is compared with."""
    before = [] if stop.turned is None else [(stop.turned, "before")]
    tokens = zip(stop.alike, (text for _, text in stop.nearest), strict=True)
    numbers, names = zip(*before, *tokens, strict=True)
    lengths = Series("length", "bar", (stop.added, stop.length), ("added", "stream"))
    return lengths, Series("cosine", "bar", numbers, names)


def _bars(stop: Stop, longest: float) -> Iterator[Mark]:
    yield from _bar("added", 0, "added: length", stop.added, longest, "second")
    yield from _bar("length", 1, "stream: length", stop.length, longest, "accent")
    if stop.turned is not None:
        yield from _bar("turned", 2, "cosine to before", stop.turned, 1, 3)
    title = "cosine to the nearest rows of the token table"
    yield Mark("title", 0, 3, 1, text=title, left=True)
    for n, ((id, text), alike) in enumerate(zip(stop.nearest, stop.alike, strict=True)):
        yield from _bar(f"token {id}", 4 + n, shorten(text), alike, 1, "value")


def _bar(
    key: str, y: float, name: str, value: float, most: float, role: str | int
) -> Iterator[Mark]:
    """A name, a bar as long as the number's absolute value, and the number."""
    share = abs(value) / most if isfinite(value) else 0
    yield Mark(f"{key} name", 0, y, 0.3, text=name, left=True)
    yield Mark(f"{key} bar", 0.31, y + 0.15, 0.55 * share, 0.7, role, share)
    yield Mark(f"{key} number", 0.88, y, 0.12, text=block_number(value), left=True)
