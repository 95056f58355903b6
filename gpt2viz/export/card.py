"""A head as a card to show: its matrix, its sentence and what it does there, for one slide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpt2viz.labels import shorten
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.svg import Sheet, draw_on, wrapped

#: Pixels of the whole card: a slide's shape.
WIDTH, HEIGHT = 1600, 900

#: Pixels round the words; and the letters of a matrix, as large as usual ones on half a card.
_EDGE, _LETTERS = 50, 1.5
#: Lines of the sentence that is read, and of what the head does there.
_READ, _SAID = 7, 6


@dataclass(frozen=True)
class Card:
    """The content of a card, as plain text.

    ``panel`` is the matrix of the head that ``title`` names. ``tokens`` are the labels of what was
    read, and ``chosen`` the place of the one that is marked, or None. ``says`` is what the head
    does there, ``source`` the model and the mask.
    """

    title: str
    panel: Panel
    tokens: Sequence[str]
    chosen: int | None
    says: str
    source: str


def draw_card(card: Card, colors: Palette) -> Sheet:
    """A sheet of ``WIDTH`` by ``HEIGHT`` pixels in the colours of the page."""
    matrix = Heatmaps(
        card.title,
        [replace(card.panel, title="", part=None)],
        row=card.chosen,
        numbers=NUMBERS_FIT_LARGE,
        height=HEIGHT - _EDGE,
        bar=card.panel.quantity,
    )
    sheet = Sheet(HEIGHT, colors, _LETTERS)
    draw_on(sheet, matrix, HEIGHT - 2 * _EDGE)
    sheet.parts = [f'<g transform="translate({_EDGE / 2} {_EDGE / 2})">', *sheet.parts, "</g>"]
    left = sheet.width + _EDGE
    sheet.width, sheet.height = WIDTH, HEIGHT
    _write(sheet, card, left)
    return sheet


def _write(sheet: Sheet, card: Card, left: float) -> None:
    """Title, sentence, what the head does and the source, below each other."""
    room, y = WIDTH - left - _EDGE, _EDGE + 44.0
    sheet.text(left, y, card.title, 44, bold=True)
    y += 32
    for line in _tokens(card, room):
        y += 38
        sheet.words(left, y, line, 26)
    y += 22
    for text in _cut(wrapped(card.says, room, 28), _SAID):
        y += 40
        sheet.text(left, y, text, 28)
    sheet.text(left, HEIGHT - _EDGE - 32, card.source, 20)
    sheet.text(left, HEIGHT - _EDGE, "gpt2viz", 20, bold=True)


def _tokens(card: Card, room: float) -> list[list[tuple[str, bool]]]:
    """Lines of the tokens that were read, each word with True if it is the chosen one.

    Of a long text it is the part round that one.
    """
    tokens, first = [shorten(token) for token in card.tokens], 0
    while True:
        start = "… " if first else ""
        lines = wrapped(start + " ".join(tokens[first:]), room, 26)
        shown = _cut(lines, _READ)
        n_shown = sum(len(line.split(" ")) for line in shown) - bool(first)
        if card.chosen is None or card.chosen - first < n_shown - 1 or len(lines) <= _READ:
            break
        first += 10
    position = first - bool(first)
    made = []
    for line in shown:
        words = line.split(" ")
        ends = enumerate(words, position)
        made.append([(word, n == card.chosen and word != "…") for n, word in ends])
        position += len(words)
    return made


def _cut(lines: list[str], most: int) -> list[str]:
    """At most so many lines; an ellipsis ends the last where some are left out."""
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1]} …"]
