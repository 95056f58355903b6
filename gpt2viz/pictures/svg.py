"""Matrices, maps, lines and frames as SVG, straight from a ``Picture``: no browser, no Plotly.

The visual language is the same in every picture:

- ink is magnitude: zero has the background's colour, weights run over the fixed range [0, 1],
  signed numbers over a range symmetric about 0;
- masked cells, NaN and infinity have colours of their own outside the scale, named in the
  legend, and masked cells also a chessboard pattern;
- the first token is at the top left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpt2viz.errors import ExportError
from gpt2viz.labels import numeral
from gpt2viz.pictures.cells import decimals, shared_range, specials
from gpt2viz.pictures.every_head import HeadMaps, Thumbnails, as_heatmaps
from gpt2viz.pictures.frames import Still
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.palette import DASHES, LIGHT, ColorScale, Palette, chessboard, ink, mix, rgb
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.sheet import (
    FONT_SIZE,
    LINE,
    MARGIN,
    MIN_FONT_SIZE,
    Sheet,
    caption_lines,
    escape_xml,
    text_width,
    wrap,
)

#: The kinds of picture that are drawn here.
Drawable = Heatmaps | HeadMaps | Thumbnails | Lines | Still

#: Pixels: a picture's width unless it has its own, seven and a half inches, the width of a page's
#: text.
WIDTH = 720
#: Pixels: the gap between pictures, the smallest width of a matrix, the width of a colour bar and
#: its length, and the largest thumbnail.
_GAP, _MIN_WIDTH, _BAR_WIDTH, _BAR_LENGTH, _MAX_THUMBNAIL = 14, 60, 10, 200, 160
#: The widest line between tokens, in pixels.
WIDEST = 9.0


def draw(
    picture: Drawable,
    colors: Palette = LIGHT,
    *,
    width: int | None = None,
    height: int | None = None,
    own: tuple[int, int] | None = None,
    caption: Sequence[str] = (),
) -> Sheet:
    """A picture on a sheet, with the paragraphs of a ``caption`` below it.

    Sizes are in pixels. Its ``own`` width and height are the most that it takes; a picture that
    needs less is smaller. On another ``width`` letters shrink, but never below ``MIN_FONT_SIZE``,
    and the matrices get the room that names and colour bar leave. ``height`` is that of the whole
    sheet. Raises ``ExportError`` for a width or height that is too small.
    """
    picture = as_heatmaps(picture) if isinstance(picture, HeadMaps) else picture
    most, tall = own or (WIDTH, picture.height if isinstance(picture, Heatmaps) else 0)
    wide = width or most
    sheet = Sheet(wide, colors, min(1.0, max(wide / most, MIN_FONT_SIZE / FONT_SIZE)))
    size = sheet.size(FONT_SIZE)
    under = 20 + LINE * size * len(caption_lines(caption, wide, size))
    room = None if height is None else height - under
    draw_on(sheet, picture, room or (tall if width is None else None))
    sheet.height = max(room or 0, sheet.height) + 4 * bool(caption)
    sheet.end(caption, height, MARGIN)
    return sheet


def draw_on(sheet: Sheet, picture: Drawable, most: float | None = None) -> None:
    """Draw a picture as wide as the sheet; or narrower, with matrices at most ``most`` pixels tall.

    The sheet then has the picture's size.
    """
    if isinstance(picture, Heatmaps | HeadMaps):
        _heatmaps(sheet, as_heatmaps(picture), most)
    elif isinstance(picture, Thumbnails):
        _thumbnails(sheet, picture, float("inf") if most is None else _MAX_THUMBNAIL)
    elif isinstance(picture, Lines):
        _token_lines(sheet, picture)
    else:
        _still(sheet, picture)


def paint(
    panel: Panel, ends: tuple[float, float], scale: ColorScale, colors: Palette
) -> NDArray[np.uint8]:
    """Colour a matrix's cells, (rows, columns, 3), on a scale between two ends."""
    low, high = ends
    cells = mix(scale, (np.nan_to_num(panel.values.astype(np.float64)) - low) / (high - low))
    for kind in specials(panel, colors):
        board = chessboard(kind.cells)
        cells[board == 0], cells[board == 1] = rgb(kind.color), rgb(kind.other)
    return cells


class _Side(NamedTuple):
    """The names along a side as drawn: every ``step``-th, ``upright`` or not, ``deep`` pixels."""

    names: list[str]
    step: int
    upright: bool
    deep: float


def _side(axis: Axis, room: float, size: float) -> _Side:
    """Fit names below a matrix ``room`` pixels wide: side by side if they fit, else upright."""
    names = axis.plain_ends()
    cell, longest = room / len(names), max(text_width(name, size) for name in names)
    flat, steep = ceil((longest + 4) / cell), ceil(LINE * size / cell)
    upright = flat > 1 and not all(name.isdigit() for name in names)
    return _Side(names, steep if upright else flat, upright, longest if upright else LINE * size)


def _heatmaps(sheet: Sheet, picture: Heatmaps, most: float | None) -> None:
    """Draw matrices side by side, at most ``most`` pixels tall with all that surrounds them."""
    panels, colors = picture.panels, sheet.colors
    n_columns = min(picture.n_columns, len(panels))
    if picture.ranges and sheet.width < 5 * _MIN_WIDTH * sheet.ratio * n_columns / 4:
        n_columns = -(-n_columns // 2)  # words above maps have no room
        picture = replace(picture, n_columns=n_columns)
    low, high = shared_range(panels, picture.scale)
    ends = list(picture.ranges) or [(low, high)] * len(panels)
    size, over = sheet.size(FONT_SIZE), sheet.size(13)
    lead = [_lead(picture, n, size) for n in range(n_columns)]
    bar = _bar_width(picture, (low, high), size) if picture.bar else _GAP
    room = sheet.width - sum(lead) - (n_columns - 1) * _GAP - bar - MARGIN
    least = _MIN_WIDTH if n_columns == 1 else 12 * n_columns
    _check_room(sheet, room, least, "Names and colour bar")
    each = widest = room / n_columns
    beside = 2 * min(lead[0], bar) if n_columns == 1 else _GAP / 2
    rows = [range(n, min(n + n_columns, len(panels))) for n in range(0, len(panels), n_columns)]
    legend = _off_scale(picture, colors) if picture.legend else {}
    top = MARGIN + LINE * size * bool(legend)
    gap = 2 * _GAP if len(rows) > 1 else 0
    tallest = sum(max(_ratio(panels[n]) for n in row) for row in rows)
    before = 0.0
    while each != before:  # narrower ones need more room for names, which narrows them further
        before = each
        titles = [_titles(picture, n, each + beside, over) for n in range(len(panels))]
        tops = [max(len(titles[n]) for n in row) * LINE * over + 4 for row in rows]
        bottoms = [_names_height(picture, row, each, size) for row in rows]
        fixed = top + sum(tops) + sum(bottoms) + gap * (len(rows) - 1)
        if most is not None and tallest:
            each = min(each, max(0.3 * widest, (most - fixed) / tallest))
    sheet.width -= n_columns * (widest - each)
    sheet.height = top
    _legend(sheet, legend, size)
    free = ((most or picture.height) - fixed) / len(rows)
    for row, down_above, down_below in zip(rows, tops, bottoms, strict=True):
        tall = {n: _tall(panels[n], each, size, free, fills=most is not None) for n in row}
        x, y = MARGIN + 0.0, sheet.height + down_above
        for column, n in enumerate(row):
            x += lead[column]
            box = _Box(x, y, each, tall[n])
            scale = colors.signed if picture.scale == "signed" else colors.unit
            _panel(sheet, picture, n, box, ends[n], scale, decimals(high))
            for up, line in enumerate(reversed(titles[n])):
                sheet.text(x + each / 2, y - 6 - up * LINE * over, line, over, "middle")
            x += each + _GAP
        if row.start == 0 and picture.bar:
            _bar(sheet, picture, (low, high), x, y, min(_BAR_LENGTH, max(tall.values())))
        sheet.height = y + max(tall.values()) + down_below + gap
    sheet.height -= gap


class _Box(NamedTuple):
    """The rectangle in which a matrix is drawn."""

    x: float
    y: float
    wide: float
    tall: float


def _ratio(panel: Panel) -> float:
    return len(panel.rows.labels) / len(panel.columns.labels) if panel.of_pairs else 0.0


def _tall(panel: Panel, wide: float, size: float, free: float, *, fills: bool) -> float:
    """The height of a matrix in pixels: square cells, or rows with room for their names, within
    the ``free`` height, or filling it."""
    if panel.of_pairs:
        return wide * _ratio(panel)
    return max(40, free if fills else min(LINE * size * len(panel.rows.labels), free))


def _names_itself(picture: Heatmaps, n: int, down: bool) -> bool:
    """True if a panel needs names of its own at a side, as its neighbour's aren't the same."""
    panels = picture.panels
    n_columns = min(picture.n_columns, len(panels))
    if down:
        return n % n_columns == 0 or panels[n].rows != panels[n - 1].rows
    beneath = n + n_columns
    return beneath >= len(panels) or panels[n].columns != panels[beneath].columns


def _lead(picture: Heatmaps, column: int, size: float) -> float:
    """Pixels left of the matrices of a column, for the names of their rows."""
    n_columns = min(picture.n_columns, len(picture.panels))
    named = [
        max(text_width(name, size) for name in picture.panels[n].rows.plain_ends())
        + (LINE * size + 8) * bool(picture.panels[n].rows.title)
        for n in range(column, len(picture.panels), n_columns)
        if _names_itself(picture, n, down=True)
    ]
    return max(named, default=-6) + 6


def _names_height(picture: Heatmaps, row: Iterable[int], wide: float, size: float) -> float:
    """Pixels below a row of matrices, for the names of their columns."""
    tall = [0.0]
    for n in row:
        if _names_itself(picture, n, down=False):
            columns = picture.panels[n].columns
            tall.append(_side(columns, wide, size).deep + 6 + LINE * size * bool(columns.title))
    return max(tall)


def _titles(picture: Heatmaps, n: int, room: float, size: float) -> list[str]:
    panel = picture.panels[n]
    title = panel.title
    if picture.ranged:
        low, high = shared_range(picture.panels, picture.scale)
        title = f"{title} {numeral(low, '.3g')} to {numeral(high, '.3g')}".lstrip()
    parts = [*title.splitlines(), "" if panel.part is None else str(panel.part)]
    return [line for part in parts if part for line in wrap(part, room, size)]


def _panel(
    sheet: Sheet,
    picture: Heatmaps,
    n: int,
    box: _Box,
    ends: tuple[float, float],
    scale: ColorScale,
    digits: int,
) -> None:
    """Draw one matrix with its cells' text, names, frames and rules."""
    panel, colors = picture.panels[n], sheet.colors
    cells = paint(panel, ends, scale, colors)
    n_rows, n_columns = panel.values.shape
    wide, tall = box.wide / n_columns, box.tall / n_rows
    empty = picture.lacks_numbers(panel)
    if empty:
        lines = panel.masked_text.splitlines()
        for down, line in enumerate(lines):
            y = box.y + box.tall / 2 + (down - len(lines) / 2 + 0.8) * LINE * MIN_FONT_SIZE
            sheet.text(box.x + box.wide / 2, y, line, MIN_FONT_SIZE, "middle")
    else:
        sheet.image(*box, cells)
        if picture.ranges or n_columns <= picture.numbers or panel.words:
            _numbers(sheet, picture, panel, box, cells, digits)
    sheet.rect(*box, line=colors.grid)
    framed = None if empty else picture.frame(panel)
    thick = 2.5 if max(panel.values.shape) <= 2 * NUMBERS_FIT_LARGE else 1
    frames = [(framed, thick)] if framed else []
    for (rows, columns), width in [*frames, *((frame, 2) for frame in picture.frames)]:
        x, y = box.x + columns[0] * wide, box.y + rows[0] * tall
        size = (columns[1] - columns[0] + 1) * wide, (rows[1] - rows[0] + 1) * tall
        sheet.rect(x, y, *size, line=colors.second, width=width * sheet.ratio)
    for after in picture.rules[0]:
        y = box.y + after * tall
        sheet.line((box.x, y), (box.x + box.wide, y), color=colors.ink)
    for after in picture.rules[1]:
        x = box.x + after * wide
        sheet.line((x, box.y), (x, box.y + box.tall), color=colors.ink)
    _names(sheet, picture, n, box)


def _names(sheet: Sheet, picture: Heatmaps, n: int, box: _Box) -> None:
    panel, size = picture.panels[n], sheet.size(FONT_SIZE)
    n_rows, n_columns = panel.values.shape
    wide, tall = box.wide / n_columns, box.tall / n_rows
    if _names_itself(picture, n, down=True):
        names, step = panel.rows.plain_ends(), ceil(LINE * size / tall)
        for row in range(0, n_rows, step):
            y = box.y + (row + 0.5) * tall + size * 0.35
            sheet.text(box.x - 6, y, names[row], size, "end")
        longest = max(text_width(name, size) for name in names)
        x, y = box.x - 14 - longest, box.y + box.tall / 2
        sheet.text(x, y, panel.rows.title, size, "middle", turned=True)
    if _names_itself(picture, n, down=False):
        side, y = _side(panel.columns, box.wide, size), box.y + box.tall + 4
        for column in range(0, n_columns, side.step):
            x, name = box.x + (column + 0.5) * wide, side.names[column]
            if side.upright:
                sheet.text(x + size * 0.35, y, name, size, "end", turned=True)
            else:
                sheet.text(x, y + size, name, size, "middle")
        middle = box.x + box.wide / 2
        sheet.text(middle, y + side.deep + size, panel.columns.title, size, "middle")


def _numbers(
    sheet: Sheet, picture: Heatmaps, panel: Panel, box: _Box, cells: NDArray[np.uint8], digits: int
) -> None:
    """Write the cells' numbers, as large as fits, or none if even ``MIN_FONT_SIZE`` doesn't fit."""
    n_rows, n_columns = panel.values.shape
    wide, tall = box.wide / n_columns, box.tall / n_rows
    form = f"{'+' if picture.plus else ''}.{digits}f"
    texts = np.array(panel.words or [[numeral(x, form) for x in row] for row in panel.values])
    for kind in () if panel.words else specials(panel, sheet.colors):
        texts[kind.cells] = kind.sign
    longest = max(text_width(text, 1) for text in texts.ravel())
    size = min(sheet.size(FONT_SIZE), (wide - 2) / longest, tall / LINE)
    if n_columns > picture.numbers and not panel.words:
        size = 0
    if size >= MIN_FONT_SIZE or picture.ranges:
        page = sheet.colors.unit[0][1]
        for n in range(1, n_columns):
            x = box.x + n * wide
            sheet.line((x, box.y), (x, box.y + box.tall), color=page)
        for n in range(1, n_rows):
            y = box.y + n * tall
            sheet.line((box.x, y), (box.x + box.wide, y), color=page)
    if size < MIN_FONT_SIZE:
        return
    for (row, column), text in np.ndenumerate(texts):
        x, y = box.x + (column + 0.5) * wide, box.y + (row + 0.5) * tall + size * 0.35
        fill = ink("#" + "".join(f"{part:02x}" for part in cells[row, column]))
        sheet.text(x, y, str(text), size, "middle", fill=fill)


def _bar_width(picture: Heatmaps, ends: tuple[float, float], size: float) -> float:
    longest = max(text_width(numeral(end, ".3g"), size) for end in (*ends, sum(ends) / 2))
    return _GAP + _BAR_WIDTH + 4 + longest + LINE * size + 4


def _bar(
    sheet: Sheet, picture: Heatmaps, ends: tuple[float, float], x: float, y: float, tall: float
) -> None:
    """Draw the colour bar from the largest number down to the smallest, with three numbers."""
    scale = sheet.colors.signed if picture.scale == "signed" else sheet.colors.unit
    sheet.image(x, y, _BAR_WIDTH, tall, mix(scale, np.linspace(1, 0, 128))[:, None])
    sheet.rect(x, y, _BAR_WIDTH, tall, line=sheet.colors.grid)
    size, longest, right = sheet.size(FONT_SIZE), 0.0, x + _BAR_WIDTH + 4
    for share in (0, 0.5, 1):
        text = numeral(ends[1] + share * (ends[0] - ends[1]), ".3g")
        sheet.text(right, y + share * tall + size * (0.75 - 0.75 * share), text, size)
        longest = max(longest, text_width(text, size))
    right += longest + LINE * size
    sheet.text(right, y + tall / 2, picture.bar, size, "middle", turned=True)


def _check_room(sheet: Sheet, room: float, least: float, what: str) -> None:
    """Raise ``ExportError`` if ``room`` is fewer pixels than the ``least`` for ``what``."""
    if room < least:
        needed = (sheet.width - room + least) / 96 * 2.54
        raise ExportError(f"{what} need a picture at least {needed:.1f} cm wide.")


def _off_scale(picture: Heatmaps, colors: Palette) -> dict[str, tuple[str, str]]:
    """The two colours of each kind of cell that isn't on the scale, by its name."""
    kinds = [special for panel in picture.panels for special in specials(panel, colors)]
    return {kind.name: (kind.color, kind.other) for kind in kinds if kind.cells.any()}


def _legend(sheet: Sheet, legend: dict[str, tuple[str, str]], size: float) -> None:
    """Draw the legend of the colours that aren't on the scale, from the right."""
    x = sheet.width - MARGIN
    for name, (color, other) in reversed(legend.items()):
        x -= text_width(name, size)
        sheet.text(x, MARGIN + size, name, size)
        x -= size + 5
        sheet.rect(x, MARGIN + size * 0.1, size, size, fill=color)
        for at in (0, size / 2):  # a chessboard, as in the cells
            sheet.rect(x + at, MARGIN + size * 0.6 - at, size / 2, size / 2, fill=other)
        x -= _GAP


def _thumbnails(sheet: Sheet, picture: Thumbnails, most: float) -> None:
    """Draw every head of every layer, at most ``most`` pixels large, with arrows between them."""
    colors, size = sheet.colors, sheet.size(FONT_SIZE)
    n_layer, n_head, side = picture.tiles.shape[:3]
    left = MARGIN + LINE * size + 4 + text_width(str(n_layer - 1), size) + 6
    from_input = any(arrow.start is None for arrow in picture.arrows)
    top = MARGIN + 2 * LINE * size + 6 + 30 * from_input
    room = sheet.width - left - MARGIN
    _check_room(sheet, room, 4 * n_head, "Names and heads")
    step = min(most, room / n_head)
    sheet.width = left + n_head * step + MARGIN
    tile = step - max(2, min(8, step / 9))
    for n in range(n_head):
        sheet.text(left + n * step + tile / 2, top - 30 * from_input - 6, str(n), size, "middle")
    middle = left + (n_head * step) / 2
    sheet.text(middle, MARGIN + size, "head", size, "middle")
    sheet.text(MARGIN + size, top + n_layer * step / 2, "layer", size, "middle", turned=True)
    row = None if picture.row is None else picture.axes[0].row_at(picture.row)
    for n, panel in enumerate(picture.matrices):
        layer, head = divmod(n, n_head)
        x, y = left + head * step, top + layer * step
        if head == 0:
            sheet.text(left - 6, y + tile / 2 + size * 0.35, str(layer), size, "end")
        sheet.image(x, y, tile, tile, paint(panel, (0, 1), colors.unit, colors))
        sheet.rect(x, y, tile, tile, line=colors.grid)
        if row is not None:
            sheet.rect(x, y + row * tile / side, tile, tile / side, line=colors.second)
        if picture.chosen == (layer, head):
            sheet.rect(x, y, tile, tile, line=colors.accent, width=3)
    for arrow in picture.arrows:
        end = left + arrow.end[1] * step + tile / 2, top + arrow.end[0] * step
        start = end[0], top - 24
        if arrow.start is not None:
            start = left + arrow.start[1] * step + tile / 2, top + arrow.start[0] * step + tile / 2
        _arrow(sheet, start, end)
        wide = text_width(arrow.written, size)
        sheet.rect(start[0] - wide / 2, start[1] - size, wide, LINE * size, fill=colors.unit[0][1])
        sheet.text(*start, arrow.written, size, "middle")
    sheet.height = top + n_layer * step


def _arrow(sheet: Sheet, start: tuple[float, float], end: tuple[float, float]) -> None:
    color, tip = sheet.colors.second, np.array(end)
    along = tip - np.array(start)
    along = along / (np.hypot(*along) or 1)
    across_it = np.array([-along[1], along[0]])
    sheet.line(start, end, color=color, width=2.5)
    wings = [tuple(tip - 9 * along + 5 * turn * across_it) for turn in (1, -1)]
    sheet.line(wings[0], end, wings[1], color=color, width=2.5)


def _token_lines(sheet: Sheet, picture: Lines) -> None:
    """Draw queries on the left, keys on the right, and the lines that a page shows at rest.

    A line is as wide as its number, ``WIDEST`` where that is ``peak``.
    """
    colors, size = sheet.colors, sheet.size(FONT_SIZE)
    n_sources, longest = (
        len(picture.sources),
        max(map(len, (picture.rows.labels, picture.columns.labels))),
    )
    step = max(LINE * size, min(26, 2000 / longest))
    names = picture.rows.plain_names(), picture.columns.plain_names()
    left, right = (max(text_width(name, size) for name in side) + 10 + MARGIN for side in names)
    x0, x1, top = left, sheet.width - right, MARGIN + 5 * LINE * size
    _check_room(sheet, x1 - x0, _MIN_WIDTH, "Names and lines")
    shades = colors.cases(n_sources)
    x = MARGIN + 0.0
    dashes = tuple(DASHES.values())
    for source, color, dash in zip(picture.sources, shades, dashes, strict=False):
        sheet.line((x, MARGIN + size), (x + 24, MARGIN + size), color=color, width=4, dash=dash)
        sheet.text(x + 30, MARGIN + size * 1.35, source.name, size)
        x += 30 + text_width(source.name, size) + _GAP
    scale = f"lines from {picture.at_rest:.2g} up"
    sheet.text((x0 + x1) / 2, top - 2 * size, scale, size, "middle")
    sheet.text(MARGIN, top - 2 * size, picture.ends[0], size)
    sheet.text(sheet.width - MARGIN, top - 2 * size, picture.ends[1], size, "end")
    for source, color, dash in zip(picture.sources, shades, dashes, strict=False):
        drawn = np.flatnonzero(source.weights >= picture.at_rest)
        sheet.parts.append(f'<g opacity="0.75" data-name="{escape_xml(source.name)}">')
        for n in drawn[np.argsort(source.weights[drawn], kind="stable")]:
            ends = top + source.queries[n] * step, top + source.keys[n] * step
            wide = float(source.weights[n]) / picture.peak * WIDEST
            points = (x0, ends[0]), (x1, ends[1])
            sheet.line(*points, color=color, width=max(0.25, wide), dash=dash)
        sheet.parts.append("</g>")
    for x, side, anchor in ((x0 - 8, names[0], "end"), (x1 + 8, names[1], "start")):
        for n, name in enumerate(side):
            sheet.text(x, top + n * step + size * 0.35, name, size, anchor)
    sheet.height = top + longest * step


def _still(sheet: Sheet, picture: Still) -> None:
    """Draw one frame of a moving picture: its blocks and words, with the caption above them."""
    size, line = sheet.size(FONT_SIZE), max(20.0, 26 * sheet.ratio)
    room = sheet.width - 2 * MARGIN
    _check_room(sheet, room, _MIN_WIDTH, "Words and blocks")
    lines = wrap(picture.frame.caption, room, size)
    for n, text in enumerate(lines):
        sheet.text(MARGIN, MARGIN + size + n * LINE * size, text, size)
    top = MARGIN + LINE * size * len(lines) + _GAP
    for mark in picture.frame.marks:
        x, y = MARGIN + mark.x * room, top + mark.y * line
        wide, tall, fill = mark.wide * room, mark.tall * line, mark.fill(sheet.colors)
        if fill:
            sheet.rect(x, y, wide, tall, fill=fill, line=sheet.colors.unit[0][1])
        if mark.text:
            at, anchor = (x + 2, "start") if mark.left else (x + wide / 2, "middle")
            shade = ink(fill) if fill else ""
            sheet.text(at, y + tall / 2 + size * 0.35, mark.text, size, anchor, fill=shade)
    sheet.height = top + picture.lines * line
