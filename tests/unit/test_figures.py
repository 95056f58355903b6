"""The visual language of the heatmaps: what each kind of cell looks like, and on which scale."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest
from numpy.testing import assert_array_equal

from gpt2viz.figures.charts import thumbnail_at
from gpt2viz.figures.heatmap import heatmaps
from gpt2viz.figures.palette import DARK, LIGHT, Palette
from gpt2viz.figures.panel import Axis, Panel
from gpt2viz.figures.pooling import pool_panel

NAN, INF = float("nan"), float("inf")


def panel(values: list[list[float]], masked: list[list[bool]] | None = None) -> Panel:
    labels = [f"t{n}" for n in range(len(values))]
    return Panel(
        "title",
        np.array(values, np.float32),
        Axis("query", labels),
        Axis("key", labels),
        masked=None if masked is None else np.array(masked),
    )


def overlays(figure: go.Figure) -> dict[str, np.ndarray]:
    """Colour -> cells, for everything that is painted over the scale."""
    return {
        trace.colorscale[0][1]: ~np.isnan(trace.z)
        for trace in figure.data
        if isinstance(trace, go.Heatmap) and trace.coloraxis is None
    }


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_masked_nan_and_infinite_are_three_pictures_and_zero_is_none(colors: Palette) -> None:
    figure = heatmaps(
        [panel([[0, -INF, 1], [NAN, 2, -INF], [INF, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]])],
        colors,
        scale="signed",
    )
    found = overlays(figure)
    assert len({colors.masked, colors.nan, colors.infinite}) == 3
    assert_array_equal(np.argwhere(found[colors.masked]), [[0, 1]])
    assert_array_equal(np.argwhere(found[colors.nan]), [[1, 0]])
    assert_array_equal(np.argwhere(found[colors.infinite]), [[1, 2], [2, 0]])
    legend = [trace.name for trace in figure.data if trace.type == "scatter"]
    assert legend == ["masked (a later key)", "NaN: not a number", "infinite"]


def test_what_does_not_occur_is_not_in_the_legend() -> None:
    figure = heatmaps([panel([[0, 1], [0.5, 0.5]])], LIGHT)
    assert not overlays(figure)
    assert all(trace.type == "heatmap" for trace in figure.data)


@pytest.mark.parametrize(
    ("scale", "values", "expected"),
    [
        ("unit", [[0.2, 0.3], [0.1, 0.4]], (0, 1)),
        ("signed", [[-3, 1], [2, 0]], (-3, 3)),
        ("signed", [[-INF, 1], [NAN, -0.5]], (-1, 1)),
        ("signed", [[0, 0], [0, 0]], (-1, 1)),
    ],
)
def test_ranges(scale: str, values: list[list[float]], expected: tuple[float, float]) -> None:
    axis = heatmaps([panel(values)], LIGHT, scale=scale).layout.coloraxis  # type: ignore[arg-type]
    assert (axis.cmin, axis.cmax) == expected


def test_what_is_compared_shares_one_range() -> None:
    small, large = panel([[0.1, 0], [0, 0]]), panel([[0, 0], [0, -7]])
    figure = heatmaps([small, large], LIGHT, scale="signed", n_columns=2)
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    assert figure.layout.coloraxis.cmax == 7


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([[0.5, 1], [1, 1]], "%{z:.2f}"),
        ([[0.004, 0], [0, 0]], "%{z:.4f}"),
        ([[164, 0], [0, 0]], "%{z:.2f}"),
    ],
)
def test_numbers_in_cells_show_two_digits_at_least(values: list[list[float]], written: str) -> None:
    figure = heatmaps([panel(values)], LIGHT, scale="signed")
    assert figure.data[0].texttemplate == written


def test_numbers_stand_only_where_there_is_room() -> None:
    def texts(numbers: int) -> list[str | None]:
        small, large = panel([[0, 1], [1, 1]]), panel(np.zeros((7, 7)).tolist())
        return [t.texttemplate for t in heatmaps([small, large], LIGHT, numbers=numbers).data]

    assert texts(6) == ["%{z:.2f}", None]
    assert texts(7) == ["%{z:.2f}", "%{z:.2f}"]
    assert texts(0) == [None, None]


def test_markup_in_a_token_is_written_out() -> None:
    tricky = Panel(
        "title",
        np.zeros((2, 2), np.float32),
        Axis("query", ["<b>x</b>", "$y$"]),
        Axis("key", ["<b>x</b>", "$y$"]),
    )
    figure = heatmaps([tricky], LIGHT)
    assert list(figure.data[0].x) == ["0 &lt;b&gt;x&lt;/b&gt;", "1 &#36;y&#36;"]
    assert figure.layout.yaxis.ticktext[0] == "&lt;b&gt;x&lt;/b&gt;"


def test_pooling_keeps_the_largest_its_place_and_the_mask() -> None:
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
    for i in range(size):
        for j in range(size):
            block = np.s_[starts[i] : ends[i], starts[j] : ends[j]]
            assert pooled.values[i, j] == whole.values[block].max()
            assert pooled.masked[i, j] == whole.masked[block].all()  # type: ignore[index]
    assert pooled.rows.names() == ["0 t0", "2 t2", "5 t5", "7 t7"]
    assert [pooled.rows.place(n) for n in range(T)] == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    assert pool_panel(whole, T) is whole


def test_pooled_words_keep_the_places_of_their_tokens() -> None:
    places = [0, 1, 4, 5, 9]
    words = Axis("query", list("abcde"), places)
    pooled = pool_panel(Panel("", np.eye(5, dtype=np.float32), words, words), 2).rows
    assert pooled.names() == ["0 a", "4 c"]
    assert [pooled.position(n) for n in range(2)] == [0, 4]
    assert [words.place(words.position(n)) for n in range(5)] == list(range(5))


@pytest.mark.parametrize("n_tokens", [1, 4, 41, 1024])
def test_a_thumbnail_is_found_by_its_cells(n_tokens: int) -> None:
    side = min(n_tokens, 40)
    step = side + max(1, side // 8)
    assert thumbnail_at(0, 0, n_tokens) == (0, 0)
    assert thumbnail_at(2 * step + side - 1, 5 * step, n_tokens) == (2, 5)
