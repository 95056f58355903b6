"""A head as a card to show: its matrix, its sentence and what it does there, for one slide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import plotly.graph_objects as go

from gpt2viz.export.paper import FAMILY, wrapped
from gpt2viz.export.sized import LETTER
from gpt2viz.labels import isolated, markup_safe, shorten
from gpt2viz.pictures.palette import Palette
from gpt2viz.pictures.panel import FEW, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.plotly.render import render

#: Pixels of the whole card: a slide's shape.
WIDTH, HEIGHT = 1600, 900

#: Pixels round the matrix, and from there to the words, colour bar between.
_TOP, _BELOW, _EDGE, _BAR = 70, 60, 50, 150
#: Lines of the sentence that is read, and of what the head does there.
_READ, _SAID = 7, 6


@dataclass(frozen=True)
class Card:
    """What stands on a card, as plain text.

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


def draw_card(card: Card, colors: Palette) -> go.Figure:
    """A figure of ``WIDTH`` by ``HEIGHT`` pixels in the colours of the page."""
    matrix = Heatmaps(
        card.title,
        [replace(card.panel, title="", part=None)],
        row=card.chosen,
        numbers=NUMBERS_FIT_LARGE,
        height=HEIGHT,
        bar=card.panel.quantity,
    )
    figure = go.Figure(render(matrix, colors))
    side, left = _place_matrix(figure, card.panel, colors)
    _write(figure, card, colors, WIDTH - left - side - _BAR - _EDGE)
    for n, trace in enumerate(figure.data):
        trace.uid = f"trace{n}"  # else plotly.js draws lots for names that get into the file
    return figure


def _place_matrix(figure: go.Figure, panel: Panel, colors: Palette) -> tuple[int, int]:
    """Make the matrix a square at the left: its side, and where it begins, in pixels."""
    letters = 18 if len(panel.rows.labels) <= FEW else 13
    names = round(letters * LETTER * 1.1 * len(panel.rows.longest()))
    left, below = names + _EDGE, names + _BELOW
    side = HEIGHT - _TOP - below
    figure.update_layout(
        width=WIDTH,
        height=HEIGHT,
        margin={"l": left, "r": WIDTH - left - side, "t": _TOP, "b": below},
        template="plotly_white",
        paper_bgcolor=colors.unit[0][1],
        font={"family": FAMILY, "color": colors.ink, "size": 16},
        legend={"font": {"size": 16}},
    )
    figure.update_xaxes(title_font_size=16, tickfont_size=letters)
    figure.update_yaxes(title_font_size=16, tickfont_size=letters)
    figure.update_coloraxes(colorbar={"tickfont": {"size": 16}, "title": {"font": {"size": 16}}})
    return side, left


def _write(figure: go.Figure, card: Card, colors: Palette, room: int) -> None:
    """Title, sentence, what the head does and the source, in lines of ``room`` pixels."""
    title = f"<b>{_safe(card.title)}</b>"
    parts = [
        (title, 44, 76),
        *[(line, 26, 38) for line in _tokens(card, room, colors)],
        ("", 26, 22),
        *[(_safe(line), 28, 40) for line in _cut(wrapped(card.says, room, 28), _SAID)],
    ]
    down = 0
    for text, size, height in parts:
        _add(figure, text, size, {"y": 1, "yanchor": "top", "yshift": -down})
        down += height
    at_the_end = {"y": 0, "yanchor": "bottom"}
    _add(figure, "<b>gpt2viz</b>", 20, at_the_end)
    _add(figure, _safe(card.source), 20, at_the_end | {"yshift": 32})


def _tokens(card: Card, room: int, colors: Palette) -> list[str]:
    """What was read as lines of markup; of a long text the part round the chosen token."""
    tokens, first = [shorten(token) for token in card.tokens], 0
    while True:
        start = "… " if first else ""
        lines = wrapped(start + " ".join(tokens[first:]), room, 26)
        shown = _cut(lines, _READ)
        n_shown = sum(len(line.split(" ")) for line in shown) - bool(first)
        if card.chosen is None or card.chosen - first < n_shown - 1 or len(lines) <= _READ:
            break
        first += 10
    place = first - bool(first)
    made = []
    for line in shown:
        words = []
        for word in line.split(" "):
            marked = place == card.chosen and word != "…"
            words.append(
                f'<b><span style="color:{colors.second}">{_safe(word)}</span></b>'
                if marked
                else _safe(word)
            )
            place += 1
        made.append(" ".join(words))
    return made


def _cut(lines: list[str], most: int) -> list[str]:
    """At most so many lines; what is left out is said by a last sign."""
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1]} …"]


def _safe(text: str) -> str:
    return markup_safe(isolated(text))


def _add(figure: go.Figure, text: str, size: int, place: dict[str, object]) -> None:
    """A line of words right of the matrix."""
    figure.add_annotation(
        text=text,
        x=1,
        xanchor="left",
        xref="paper",
        xshift=_BAR,
        yref="paper",
        align="left",
        showarrow=False,
        font={"size": size},
        **place,
    )
