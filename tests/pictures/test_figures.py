"""Heatmaps: the colours of each kind of cell, scales, numbers, pooling and parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from numpy.testing import assert_array_equal

from gpt2viz.analysis.comparison import Path
from gpt2viz.pictures import canvas
from gpt2viz.pictures.cells import shared_range
from gpt2viz.pictures.compare import path_lines
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.from_trace import difference
from gpt2viz.pictures.palette import DARK, LIGHT, Palette
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.picture import Heatmaps, Lens
from gpt2viz.pictures.pooling import crop, pool_panel, thumbnails
from gpt2viz.run.stages import Scale
from tests.pictures.samples import drawn, heatmaps

NAN, INF = float("nan"), float("inf")


def panel(values: Any, masked: Any = None) -> Panel:
    labels = [f"t{n}" for n in range(len(values))]
    return Panel(
        "title",
        np.array(values, np.float32),
        Axis("query", labels),
        Axis("key", labels),
        masked=None if masked is None else np.array(masked, bool),
    )


def test_only_pairs_of_tokens_have_square_cells() -> None:
    square = panel([[1, 2], [3, 4]])
    assert square.of_pairs
    assert not replace(square, rows=Axis("", ["raw scores", "scaled scores"])).of_pairs


def overlays(figure: go.Figure) -> dict[str, np.ndarray]:
    """Colour -> cells, for all that is painted over the colour scale."""
    return {
        trace.colorscale[0][1]: ~np.isnan(trace.z)
        for trace in figure.data
        if isinstance(trace, go.Heatmap) and trace.coloraxis is None
    }


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_masked_nan_infinite_and_zero_look_different(colors: Palette) -> None:
    figure = heatmaps(
        [panel([[0, -INF, 1], [NAN, 2, -INF], [INF, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]])],
        colors,
        scale="signed",
    )
    result = overlays(figure)
    assert len({colors.masked, colors.nan, colors.infinite}) == 3
    assert_array_equal(np.argwhere(result[colors.masked]), [[0, 1]])
    assert_array_equal(np.argwhere(result[colors.nan]), [[1, 0]])
    assert_array_equal(np.argwhere(result[colors.infinite]), [[1, 2], [2, 0]])
    legend = [trace.name for trace in figure.data if trace.type == "scatter"]
    assert legend == ["masked", "NaN: not a number", "infinite"]


@pytest.mark.parametrize(
    ("scale", "values", "expected"),
    [
        ("unit", [[0.2, 0.3], [0.1, 0.4]], (0, 1)),
        ("signed", [[-3, 1], [2, 0]], (-3, 3)),
        ("signed", [[-INF, 1], [NAN, -0.5]], (-1, 1)),
        ("signed", [[0, 0], [0, 0]], (-1, 1)),
    ],
)
def test_ranges(scale: Scale, values: list[list[float]], expected: tuple[float, float]) -> None:
    axis = heatmaps([panel(values)], LIGHT, scale=scale).layout.coloraxis
    assert (axis.cmin, axis.cmax) == expected
    (shown,) = canvas.header(Heatmaps("what", [panel(values)], scale), LIGHT)["panels"]
    assert (shown["low"], shown["high"]) == expected


def test_compared_panels_share_one_range() -> None:
    both = panel([[0.1, 0], [0, 0]]), panel([[0, 0], [0, -7]])
    assert shared_range(both, "signed") == (-7, 7)


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([[0.5, 1], [1, 1]], "%{z:.2f}"),
        ([[0.004, 0], [0, 0]], "%{z:.4f}"),
        ([[164, 0], [0, 0]], "%{z:.2f}"),
    ],
)
def test_numbers_in_cells_have_at_least_two_digits(values: list[list[float]], written: str) -> None:
    figure = heatmaps([panel(values)], LIGHT, scale="signed")
    assert figure.data[0].texttemplate == written


@pytest.mark.parametrize(("apart", "reach"), [(1e-9, 0.01), (0.5, 0.5)])
def test_rounding_is_not_shown_as_a_difference(apart: float, reach: float) -> None:
    first, second = panel([[apart, 0], [0, 0]]), panel([[0, 0], [0, 0]])
    axis = heatmaps([difference(first, second, "")], LIGHT, scale="signed").layout.coloraxis
    assert (axis.cmin, axis.cmax) == pytest.approx((-reach, reach))


def test_only_small_matrices_have_numbers_in_cells() -> None:
    def texts(numbers: int) -> list[str | None]:
        small, large = panel([[0, 1], [1, 1]]), panel(np.zeros((7, 7)))
        return [t.texttemplate for t in heatmaps([small, large], LIGHT, numbers=numbers).data]

    assert texts(6) == ["%{z:.2f}", None]
    assert texts(7) == ["%{z:.2f}", "%{z:.2f}"]
    assert texts(0) == [None, None]


def test_markup_in_a_token_is_escaped() -> None:
    names = ["<b>x</b>", "$y$"]
    tricky = Panel("title", np.zeros((2, 2), np.float32), Axis("query", names), Axis("key", names))
    figure = heatmaps([tricky], LIGHT)
    assert list(figure.data[0].x) == ["0 &lt;b&gt;x&lt;/b&gt;", "1 &#36;y&#36;"]
    assert figure.layout.yaxis.ticktext[0] == "&lt;b&gt;x&lt;/b&gt;"


def test_lens_cells_have_words_and_hover_texts() -> None:
    axes = Axis("", ["layer 0, after MLP"], numbered=False), Axis("after token", ["<b>", "a"])
    words, messages = [["<i>", "b"]], [["<i> 25 %\nrank 2", "b 50 %"]]
    panel = Panel("", np.array([[0.25, 0.5]], np.float32), *axes, words=words, hover=messages)
    shown = canvas.header(Lens("lens", panel, (), column=1).tokens, LIGHT)
    assert (shown["panels"][0]["words"], shown["panels"][0]["hover"]) == (*words, *messages)
    whole, frame = shown["grids"][0]["rowEnds"], shown["grids"][0]["frame"]
    assert (whole, frame) == (["layer 0, after MLP"], (0, 0, 1, 1))
    assert shown["bar"] == "attention weight"


def test_pooling_keeps_the_largest_its_position_and_the_mask() -> None:
    T, size = 10, 4
    rng = np.random.default_rng(0)
    labels = [f"t{n}" for n in range(T)]
    whole = Panel(
        "title",
        rng.random((T, T), np.float32),
        Axis("query", labels),
        Axis("key", labels),
        masked=np.triu(np.ones((T, T), bool), 1),
    )
    pooled = pool_panel(whole, size)
    starts = [0, 2, 5, 7]
    ends = [2, 5, 7, 10]
    for i, j in np.ndindex(size, size):
        block = np.s_[starts[i] : ends[i], starts[j] : ends[j]]
        seen = whole.values[block][~whole.masked[block]]  # type: ignore[index]
        assert pooled.values[i, j] == seen.max(initial=0)
        assert pooled.masked[i, j] == whole.masked[block].all()  # type: ignore[index]
    assert pooled.rows.names() == ["0 t0", "2 t2", "5 t5", "7 t7"]
    assert [pooled.rows.row_at(n) for n in range(T)] == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    assert pool_panel(whole, T) is whole
    assert pooled.quantity == "largest attention weight of this block"


def test_pooling_signed_numbers_keeps_the_farthest_from_zero() -> None:
    whole = panel([[1, -3, 0, 0], [2, 0.5, 0, 0], [NAN, 1, -INF, 5], [1, 1, 0, 0]])
    pooled = pool_panel(whole, 2)
    assert_array_equal(pooled.values, [[-3, 0], [NAN, -INF]])
    assert pooled.quantity == "farthest from 0: attention weight of this block"


def test_pooling_shrinks_only_long_axes() -> None:
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    whole = Panel("", values, Axis("token", list("abcdef")), Axis("dimension", ["0", "1"]))
    pooled = pool_panel(whole, 3)
    assert_array_equal(pooled.values, values[1::2])
    assert pooled.rows.names() == ["0 a", "2 c", "4 e"]
    assert pooled.columns.names() == ["0", "1"]


def test_crop_keeps_numbers_positions_and_mask() -> None:
    T = 6
    values = np.arange(T * T, dtype=np.float32).reshape(T, T)
    masked = np.triu(np.ones((T, T), bool), 1)
    rows, columns = (Axis(title, list("abcdef")) for title in ("query", "key"))
    whole = Panel("title", values, rows, columns, masked=masked)
    part = crop(whole, range(2, 5), range(1, 3))
    assert_array_equal(part.values, values[2:5, 1:3])
    assert_array_equal(part.masked, masked[2:5, 1:3])
    assert part.rows.names() == ["2 c", "3 d", "4 e"]
    assert part.columns.names() == ["1 b", "2 c"]
    assert [part.rows.row_at(n) for n in range(T)] == [None, None, 0, 1, 2, None]
    assert [part.columns.position(n) for n in range(2)] == [1, 2]
    assert_array_equal(crop(whole, range(2, 5), None).values, values[2:5])
    assert crop(whole, range(T), range(T)).rows.row_at(T - 1) == T - 1


def test_crop_takes_whole_words() -> None:
    words = Axis("query", ["un", "believ", "able"], [0, 3, 7])
    whole = Panel("", np.eye(3, dtype=np.float32), words, words)
    assert crop(whole, range(4, 5), None).rows.names() == ["3 believ"]
    assert crop(whole, range(4, 8), None).rows.names() == ["3 believ", "7 able"]
    part = crop(whole, range(3), None).rows
    assert [part.row_at(n) for n in (0, 2, 3)] == [0, 0, None]


@pytest.mark.parametrize(("row", "column"), [(1, None), (None, 5), (3, 5)])
def test_a_row_or_column_outside_the_part_has_no_frame(row: int | None, column: int | None) -> None:
    part = crop(panel(np.zeros((6, 6))), range(2, 5), range(2, 5))
    assert Heatmaps("what", [part], row=row, column=column).frame(part) is None
    assert Heatmaps("what", [part], row=3, column=2).frame(part) == ((1, 1), (0, 0))


def test_pooled_words_keep_the_positions_of_their_tokens() -> None:
    positions = [0, 1, 4, 5, 9]
    words = Axis("query", list("abcde"), positions)
    pooled = pool_panel(Panel("", np.eye(5, dtype=np.float32), words, words), 2).rows
    assert pooled.names() == ["0 a", "4 c"]
    assert [pooled.position(n) for n in range(2)] == [0, 4]
    assert [words.row_at(words.position(n)) for n in range(5)] == list(range(5))


@pytest.mark.parametrize("n_tokens", [3, 100])
def test_the_overview_names_head_and_block_of_each_cell(n_tokens: int) -> None:
    rng = np.random.default_rng(0)
    layers = [rng.random((3, n_tokens, n_tokens), np.float32) for _ in range(2)]
    tiles = thumbnails(layers)
    side = min(n_tokens, 40)
    assert tiles.shape == (2, 3, side, side)
    masked = np.zeros((n_tokens, n_tokens), bool)
    cells = drawn(Thumbnails("what", tiles, masked, ["x"] * n_tokens), LIGHT).data[0]
    columns, rows = list(cells.x), list(cells.y)
    assert len(set(columns)) == len(columns) == cells.z.shape[1]
    for layer, head, i, j in ((0, 0, 0, 0), (1, 2, 2, 1), (1, 0, side - 1, 2)):
        query, key = i * n_tokens // side, j * n_tokens // side
        row = rows.index(f"layer {layer} · query {query} x")
        column = columns.index(f"head {head} · key {key} x")
        assert cells.z[row, column] == tiles[layer, head, i, j]


@pytest.mark.parametrize("added", [[np.nan, -0.6], [-0.6, np.nan], [np.nan, np.nan]])
def test_a_paths_axis_includes_its_lowest_point(added: list[float]) -> None:
    """Also if a part is switched off, whose addition has no direction (NaN)."""
    sites: Any = (("attention_output", 0), ("mlp_output", 0))
    stream = Path(sites, np.array([1.0, 0.5]), np.zeros(2))
    parts = Path(sites, np.array(added), np.zeros(2))
    low, high = drawn(path_lines("what", {"a": (stream, parts)}), LIGHT).layout.yaxis.range
    assert (low, high) == pytest.approx((-0.65 if -0.6 in added else -0.05, 1.05))


def test_masked_and_non_finite_cells_have_a_sign_instead_of_a_number() -> None:
    values = np.array([[1, 0, 0], [0.5, 0.5, 0], [np.nan, 0, np.inf]], np.float32)
    axis = ("a", "b", "c")
    masked = np.triu(np.ones((3, 3), bool), 1)
    panel = Panel("", values, Axis("query", axis), Axis("key", axis), masked=masked)
    special = heatmaps([panel], LIGHT).data[1:4]
    assert [trace.texttemplate for trace in special] == ["%{text}"] * 3
    signs = np.array([trace.text for trace in special[:3]], object).sum(axis=0)
    assert signs.tolist() == [["", "×", "×"], ["", "", "×"], ["NaN", "", "∞"]]
    assert {trace.texttemplate for trace in heatmaps([panel], LIGHT, numbers=0).data[:4]} == {None}
