"""SVG files, parsed and with their images decoded, compared with the pictures' numbers."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from gpt2viz.errors import ExportError
from gpt2viz.pictures import svg
from gpt2viz.pictures.every_head import HeadMaps
from gpt2viz.pictures.find import head_map
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.palette import DARK, LIGHT, Palette
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.sheet import MIN_FONT_SIZE, Sheet, text_width
from tests.pictures.samples import one_of_every_kind
from tests.pictures.test_figures import INF, NAN, panel

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = {kind: p for kind, p in one_of_every_kind().items() if isinstance(p, svg.Drawable)}


def parse(sheet: Sheet) -> ElementTree.Element:
    return ElementTree.fromstring(sheet.svg())  # noqa: S314 (our own file)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def images(root: ElementTree.Element, shape: tuple[int, int]) -> list[np.ndarray]:
    """The colour at the middle of each cell of every image, of ``shape`` (rows, columns)."""
    results = []
    for image in root.iter(f"{SVG}image"):
        content = base64.b64decode(image.attrib["href"].partition(",")[2])
        pixels = np.asarray(Image.open(io.BytesIO(content)))
        middles = [
            (2 * np.arange(n) + 1) * size // (2 * n)
            for n, size in zip(shape, pixels.shape[:2], strict=True)
        ]
        results.append(pixels[np.ix_(*middles)])
    return results


def shade(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color[1:]))


def colors(values: np.ndarray, scale: Iterable[tuple[float, str]]) -> np.ndarray:
    """The colours of numbers on a scale, (…, 3), interpolated between its stops."""
    stops, names = zip(*scale, strict=True)
    channels = zip(*map(shade, names), strict=True)
    return np.stack([np.interp(values, stops, channel) for channel in channels], axis=-1)


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_masked_nan_infinite_and_zero_look_different(colors: Palette) -> None:
    cells = panel([[0, -INF, 4], [NAN, 2, -INF], [INF, -4, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    root = parse(svg.draw(Heatmaps("what", [cells], "signed"), colors))
    (drawn,) = images(root, (3, 3))
    page, low, high = (colors.signed[n][1] for n in (2, 0, 4))
    board = colors.masked_other  # (0, 1) is an odd square
    expected = [
        [page, board, high],
        [colors.nan, colors.signed[3][1], colors.infinite],
        [colors.infinite, low, page],
    ]
    assert [[tuple(map(int, cell)) for cell in row] for row in drawn] == [
        [shade(color) for color in row] for row in expected
    ]
    assert {"masked", "NaN: not a number", "infinite"} < set(texts(root))
    written = [text for text in texts(root) if text in ("×", "∞", "NaN", "4.00", "−4.00")]
    assert written == ["×", "4.00", "NaN", "∞", "∞", "−4.00"]


def test_every_weight_is_painted_in_its_cell() -> None:
    values = np.random.default_rng(0).random((3, 7)).astype(np.float32)
    axes = Axis("token", list("abc")), Axis("dimension", list("0123456"))
    root = parse(svg.draw(Heatmaps("what", [Panel("", values, *axes)])))
    (drawn,) = images(root, (3, 7))
    np.testing.assert_allclose(drawn[..., :3], colors(values, LIGHT.unit), atol=0.51, rtol=0)
    assert [name for name in texts(root) if len(name) == 1] == [*"abc", *"0123456"]
    every_head = parse(svg.draw(Heatmaps("what", [head_map(values, "score")])))
    (again,) = images(every_head, (3, 7))
    assert (again == drawn).all()


def test_pairs_are_squares_and_letters_scale_with_the_width() -> None:
    root = parse(svg.draw(Heatmaps("what", [panel(np.eye(4).tolist())])))
    (image,) = root.iter(f"{SVG}image")
    assert float(image.attrib["width"]) == pytest.approx(float(image.attrib["height"]), rel=1e-3)
    sizes = [Sheet(90, LIGHT, ratio).size(40) for ratio in (1, 0.5, 0.001)]
    assert sizes == [40, 20, MIN_FONT_SIZE]


def box(text: ElementTree.Element) -> tuple[float, float, float, float]:
    """The left, right, top and bottom of a text; letters are narrower than ``text_width``."""
    x, y, size = (float(text.attrib[name]) for name in ("x", "y", "font-size"))
    room = 0.8 * text_width("".join(text.itertext()), size)
    before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")]
    if "transform" in text.attrib:
        return x - 0.7 * size, x + 0.2 * size, y - (1 - before) * room, y + before * room
    return x - before * room, x + (1 - before) * room, y - 0.7 * size, y + 0.2 * size


def ten_tokens() -> dict[str, Heatmaps]:
    """Matrices of ten tokens, whose names are horizontal or vertical."""
    matrix = panel(np.eye(10).tolist(), np.triu(np.ones((10, 10), int), 1).tolist())
    titles = "Attention weight, head 1: layers 1 − layer 0", "Head 1", "layers 1 − layer 0"
    panels = [replace(matrix, title=title) for title in titles]
    return {
        f"{n} in {columns}, {bar}": Heatmaps("what", panels[:n], "signed", columns, 360, bar=bar)
        for n, columns in ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3))
        for bar in ("", "difference of weights")
    }


MANY = {**PICTURES, **ten_tokens()}


@pytest.mark.parametrize("kind", MANY)
@pytest.mark.parametrize("width", [321, 661, None])
def test_texts_and_marks_fit_the_sheet_without_overlap(kind: str, width: int | None) -> None:
    sheet = svg.draw(MANY[kind], width=width, caption=["what " * 30])
    root = parse(sheet)
    assert width is None or sheet.width <= width
    assert (float(root.attrib["width"]), float(root.attrib["height"])) == pytest.approx(
        (sheet.width, sheet.height), abs=0.01
    )
    written = [(text, *box(text)) for text in root.iter(f"{SVG}text") if "".join(text.itertext())]
    for text, left, right, top, bottom in written:
        assert float(text.attrib["font-size"]) >= MIN_FONT_SIZE
        assert 0 <= left <= right <= sheet.width, "".join(text.itertext())
        assert 0 <= top <= bottom <= sheet.height, "".join(text.itertext())
    for (text, *here), (other, *there) in combinations(written, 2):
        across = min(here[1], there[1]) - max(here[0], there[0])
        down = min(here[3], there[3]) - max(here[2], there[2])
        assert min(across, down) <= 0, ["".join(each.itertext()) for each in (text, other)]
    for mark in (*root.iter(f"{SVG}rect"), *root.iter(f"{SVG}image")):
        if "x" in mark.attrib:
            x, y, wide, tall = (float(mark.attrib[name]) for name in ("x", "y", "width", "height"))
            assert 0 <= x <= x + wide <= sheet.width + 0.1
            assert 0 <= y <= y + tall <= sheet.height + 0.1


@pytest.mark.parametrize("kind", PICTURES)
def test_too_small_a_width_is_refused(kind: str) -> None:
    for width in (1, 16, 40):
        with pytest.raises(ExportError, match=r"need a picture at least \d\.\d cm wide"):
            svg.draw(PICTURES[kind], width=width, caption=["A crane ate fish"])


def test_labels_and_captions_are_escaped() -> None:
    picture = PICTURES["heatmaps"]
    assert isinstance(picture, Heatmaps)
    assert {*picture.panels[0].rows.labels} < {*texts(parse(svg.draw(picture)))}
    strange = svg.draw(picture, caption=["\x00\ud800 & <b>"])
    assert texts(parse(strange))[-1] == "\ufffd\ufffd & <b>"


@pytest.mark.parametrize(("row", "column"), [(1, None), (None, 2), (3, 4)])
def test_the_chosen_row_or_column_is_framed(row: int | None, column: int | None) -> None:
    picture = Heatmaps("what", [panel(np.eye(5).tolist())], row=row, column=column)
    root = parse(svg.draw(picture))
    (image,) = root.iter(f"{SVG}image")
    (frame,) = (rect for rect in root.iter(f"{SVG}rect") if rect.get("stroke") == LIGHT.second)
    ends = []
    for start, size, chosen in (("y", "height", row), ("x", "width", column)):
        cell = float(image.attrib[size]) / 5
        first = (float(frame.attrib[start]) - float(image.attrib[start])) / cell
        ends += [(first, float(frame.attrib[size]) / cell)]
        assert ends[-1] == pytest.approx((0, 5) if chosen is None else (chosen, 1), abs=0.01)


def test_every_thumbnail_and_head_map_shows_its_numbers() -> None:
    heads, picture = PICTURES["thumbnails"], PICTURES["head maps"]
    for tile, cells in zip(heads.matrices, images(parse(svg.draw(heads)), (5, 5)), strict=True):
        np.testing.assert_array_equal(cells, svg.paint(tile, (0, 1), LIGHT.unit, LIGHT))
    assert isinstance(picture, HeadMaps)
    root = parse(svg.draw(picture))
    every = [pair for row in picture.rows for pair in zip(row.panels, row.ends, strict=True)]
    drawn = images(root, (2, 3))
    assert len(drawn) == len(every)
    for (matrix, ends), cells in zip(every, drawn, strict=True):
        np.testing.assert_array_equal(cells, svg.paint(matrix, ends, LIGHT.unit, LIGHT))
    assert " ".join(texts(root)).count("0 to 1") == sum(e == (0, 1) for _, e in every)


def test_lines_have_widths_in_proportion_to_their_numbers() -> None:
    picture = PICTURES["lines"]
    assert isinstance(picture, Lines)
    root = parse(svg.draw(picture))
    for source, group in zip(picture.sources, root.iter(f"{SVG}g"), strict=True):
        drawn = source.weights[source.weights >= picture.at_rest]
        lines = group.findall(f"{SVG}polyline")
        widths = [float(p.attrib["stroke-width"]) for p in lines]
        wide = np.maximum(0.25, np.sort(drawn) / picture.peak * svg.WIDEST)
        np.testing.assert_allclose(widths, wide, atol=0.01)
        ends = [[float(n) for n in re.findall(r",([\d.]+)", p.attrib["points"])] for p in lines]
        order = np.argsort(source.weights, kind="stable")[-len(drawn) :]
        starts = np.array(ends) - min(map(min, ends))
        step = starts.max() / 4
        np.testing.assert_allclose(
            starts / step, np.stack([source.queries, source.keys], 1)[order], atol=0.01
        )


@pytest.mark.parametrize(("n", "written"), [(4, True), (12, False)])
def test_numbers_are_left_out_of_small_cells(n: int, written: bool) -> None:
    picture = Heatmaps("what", [panel(np.eye(n).tolist())], numbers=12)
    assert ("1.00" in texts(parse(svg.draw(picture, width=321)))) == written
