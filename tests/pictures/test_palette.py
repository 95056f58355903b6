"""Colours mean the same in light and dark: a weight, masked, the first case, the second."""

from __future__ import annotations

import re
import tomllib
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gpt2viz.pictures.compare import aligned_bars
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.from_trace import difference, difference_in_words
from gpt2viz.pictures.palette import DARK, LIGHT, LOWER, SQUARES, UPPER, ColorScale, Palette, ink
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.prediction import probability_bars
from tests.pictures.samples import drawn, heatmaps

BOTH = pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
ROOT = Path(__file__).parents[2]
#: Distance in CIE L*a*b* (1976); 2.3 is just noticeable, side by side.
DISTANCE = 7.5
#: Words about a colour that hold only in light or only in dark mode.
LIGHTNESS_WORDS = re.compile(r"\b(dark|light|bright|pale)(er|est)?\b(?! (up|page|theme|GPT))", re.I)


def rgb(color: str) -> np.ndarray:
    return np.array([int(color[n : n + 2], 16) for n in (1, 3, 5)], float)


def lab(color: np.ndarray) -> np.ndarray:
    """sRGB (…, 3), 0 to 255, to L*a*b* under D65, by IEC 61966-2-1 and CIE 15."""
    c = color / 255
    c = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = c @ np.array(to_xyz).T / [0.95047, 1, 1.08883]
    x, y, z = np.moveaxis(np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def ramp(scale: ColorScale) -> np.ndarray:
    stops, shades = [stop for stop, _ in scale], np.array([rgb(color) for _, color in scale])
    at = np.linspace(0, 1, 1001)
    return np.stack([np.interp(at, stops, channel) for channel in shades.T], axis=-1)


def luminance(colors: np.ndarray) -> np.ndarray:
    """sRGB (…, 3), 0 to 255, to relative luminance (WCAG 2.2)."""
    c = colors / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [
        0.2126,
        0.7152,
        0.0722,
    ]


def contrast(color: str, other: str) -> float:
    low, high = sorted(float(luminance(rgb(shade))) for shade in (color, other))
    return (high + 0.05) / (low + 0.05)


@BOTH
def test_text_has_enough_contrast(colors: Palette) -> None:
    """At least 4.5 to 1 (WCAG 2.2, 1.4.3), in cells of any shade and in colour on the page."""
    fills = [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in product(range(0, 256, 15), repeat=3)]
    for scale in (colors.unit, colors.signed):
        fills += ["#" + "".join(f"{c:02x}" for c in row) for row in ramp(scale).round().astype(int)]
    fills += [colors.masked, colors.masked_other, colors.nan, colors.infinite, *colors.sources]
    assert not [fill for fill in fills if contrast(ink(fill), fill) < 4.5]
    page = colors.unit[0][1]
    words = (colors.ink, colors.accent, colors.second, colors.query, colors.key, colors.value)
    assert not [word for word in words if contrast(word, page) < 4.5]


@BOTH
def test_masked_colours_differ_from_those_of_all_weights(colors: Palette) -> None:
    greys = [lab(rgb(color)) for color in (colors.masked, colors.masked_other)]
    for scale in (colors.unit, colors.signed):
        for grey in greys:
            assert np.linalg.norm(lab(ramp(scale)) - grey, axis=1).min() > DISTANCE
    assert np.linalg.norm(greys[0] - greys[1]) > DISTANCE / 2  # they stand side by side


@BOTH
@pytest.mark.parametrize("n", [4, 100])
def test_masked_cells_form_a_chessboard(colors: Palette, n: int) -> None:
    masked = np.triu(np.ones((n, n), bool), 1)
    axis = Axis("query", [str(k) for k in range(n)])
    panel = Panel("", np.zeros((n, n), np.float32), axis, axis, masked=masked)
    (board,) = (
        trace
        for trace in heatmaps([panel], colors).data
        if trace.type == "heatmap" and not trace.coloraxis
    )
    square = max(1, n // SQUARES)
    expected = [[(row // square + column // square) % 2 for column in range(n)] for row in range(n)]
    assert_array_equal(board.z[masked], np.array(expected)[masked])
    assert np.isnan(board.z[~masked]).all()
    assert (board.zmin, board.zmax) == (0, 1)
    assert [color for _, color in board.colorscale] == [colors.masked, colors.masked_other]
    tiles = Thumbnails("what", np.zeros((1, 1, 4, 4), np.float32), masked[:4, :4], "abcd")
    small = drawn(tiles, colors)
    assert [color for _, color in small.data[1].colorscale] == [colors.masked, colors.masked_other]
    assert_array_equal(np.unique(small.data[1].z[~np.isnan(small.data[1].z)]), [0, 1])


def test_texts_about_colour_hold_in_light_and_dark() -> None:
    """In all texts shown: more is brighter in dark mode, and darker in light mode."""
    pages = [ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "gpt2viz/app").rglob("*.py")]
    assert len(pages) > 50
    for path in pages:
        source = path.read_text(encoding="utf-8")
        texts = re.findall(r'^\s+(?:[\w.]+\()?f?"([^"]* [^"]*)"', source, re.M)
        results = [
            text for text in texts if LIGHTNESS_WORDS.search(text) and "light-dark(" not in text
        ]
        assert not results, path
    messages = (ROOT / "gpt2viz/sentences.toml").read_text(encoding="utf-8")
    assert not LIGHTNESS_WORDS.findall(messages)


def test_pages_around_pictures_have_their_colours() -> None:
    theme = tomllib.loads((ROOT / ".streamlit/config.toml").read_text("utf-8"))["theme"]
    for mode, colors in (("light", LIGHT), ("dark", DARK)):
        assert theme[mode]["primaryColor"] == colors.accent
        assert theme[mode]["backgroundColor"] == colors.unit[0][1]
    css = (ROOT / "gpt2viz/app/theme.css").read_text("utf-8")
    assert f"light-dark({LIGHT.accent}, {DARK.accent})" in css


def is_blue(color: str) -> bool:
    red, _, blue = rgb(color)
    return bool(blue > red)


@BOTH
def test_the_second_case_has_the_colour_of_a_positive_difference(colors: Palette) -> None:
    assert (UPPER, LOWER) == ("blue", "orange")
    assert [is_blue(color) for _, color in (colors.signed[0], colors.signed[-1])] == [False, True]
    for count in (2, 3, 4):
        assert [is_blue(color) for color in colors.cases(count)[:2]] == [False, True]
        assert len(set(colors.cases(count))) == count
    assert colors.cases(1) == (colors.accent,)
    bars = probability_bars("what", ["a", "b"], {"first": [1, 2], "second": [3, 4]})
    cases = drawn(bars, colors).data
    assert [is_blue(bars.marker.color) for bars in cases] == [False, True]
    row, pairs = np.ones(1), [type("Pair", (tuple,), {"same": True})((0, 0))]
    bars = aligned_bars("what", pairs, (["a"], ["a"]), (row, row), ("A", "B"))
    cases = drawn(bars, colors).data
    assert [is_blue(bars.marker.color) for bars in cases] == [False, True]


def test_a_difference_is_the_second_minus_the_first() -> None:
    axis = Axis("query", ["a"])
    first, second = (Panel("", np.full((1, 1), n, np.float32), axis, axis) for n in (0.25, 1))
    assert difference(first, second, "").values == 0.75
    assert difference(first, first, "").least == 0.01
    text = difference_in_words("B − A", "A", "B")
    assert text == "**B − A**: blue where B is larger, orange where A is."
