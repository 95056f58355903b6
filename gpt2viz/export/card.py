"""A head as a card for one slide: its matrix, its sentence and what it does there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpt2viz.labels import shorten
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.sheet import Sheet, wrap
from gpt2viz.pictures.svg import draw_on

#: The size of the whole card in pixels, in a slide's proportions.
WIDTH, HEIGHT = 1600, 900

#: Pixels around the words; and the scale of a matrix's letters, so that they look usual here.
_EDGE, _LETTERS = 50, 1.5
#: The most lines of the sentence, and of what the head does there.
_TOKEN_LINES, _TEXT_LINES = 7, 6


@dataclass(frozen=True)
class Card:
    """The content of a card, as plain text.

    ``panel`` is the matrix of the head that ``title`` names. ``tokens`` are the labels of the
    text's tokens, and ``chosen`` the index of the marked one, or None. ``says`` is what the head
    does there, ``source`` the model and the mask.
    """

    title: str
    panel: Panel
    tokens: Sequence[str]
    chosen: int | None
    says: str
    source: str


def draw_card(card: Card, colors: Palette) -> Sheet:
    """Draw a sheet of ``WIDTH`` by ``HEIGHT`` pixels in the colours of the page."""
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
    """Write title, sentence, what the head does and the source, below each other."""
    room, y = WIDTH - left - _EDGE, _EDGE + 44.0
    sheet.text(left, y, card.title, 44, bold=True)
    y += 32
    for line in _tokens(card, room):
        y += 38
        sheet.words(left, y, line, 26)
    y += 22
    for text in _cut(wrap(card.says, room, 28), _TEXT_LINES):
        y += 40
        sheet.text(left, y, text, 28)
    sheet.text(left, HEIGHT - _EDGE - 32, card.source, 20)
    sheet.text(left, HEIGHT - _EDGE, "gpt2viz", 20, bold=True)


def _tokens(card: Card, room: float) -> list[list[tuple[str, bool]]]:
    """Lines of the text's tokens, each word with True if it is the chosen one.

    A long text is cut to the part around that one.
    """
    tokens, first = [shorten(token) for token in card.tokens], 0
    while True:
        start = "… " if first else ""
        lines = wrap(start + " ".join(tokens[first:]), room, 26)
        shown = _cut(lines, _TOKEN_LINES)
        n_shown = sum(len(line.split(" ")) for line in shown) - bool(first)
        if card.chosen is None or card.chosen - first < n_shown - 1 or len(lines) <= _TOKEN_LINES:
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
    """Cut to at most ``most`` lines; an ellipsis ends the last if some are left out."""
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1]} …"]
