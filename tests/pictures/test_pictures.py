"""Every kind of picture: a value without colours, and its drawing, words and table."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz import export
from gpt2viz.analysis.fewest_heads import FewestHeads
from gpt2viz.export import alt_text
from gpt2viz.pictures import every_head, picture, svg
from gpt2viz.pictures.circuits import Wiring
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.frames import Still
from gpt2viz.pictures.from_trace import mask_causes
from gpt2viz.pictures.lines import AT_REST, MOST_LINES, Lines, lines
from gpt2viz.pictures.palette import DARK, LIGHT, Palette
from gpt2viz.pictures.panel import Axis, Panel
from gpt2viz.pictures.patching import faithfulness_curve
from gpt2viz.pictures.picture import Curve, Curves, Heatmaps, Lens, Picture, Reading
from gpt2viz.pictures.prediction import probability_bars
from tests.pictures.samples import drawn, one_of_every_kind
from tests.pictures.test_figures import panel as square

PICTURES = one_of_every_kind()
EVERY = pytest.mark.parametrize("picture", PICTURES.values(), ids=list(PICTURES))
COLOR = re.compile(r"#[0-9a-f]{6}\b")
#: Parts of a figure that hold data, even where it reads like a colour.
TEXTS = {"x", "y", "z", "text", "hovertext", "customdata", "ticktext", "categoryarray", "template"}


def drawn_numbers(picture: Picture, colors: Palette) -> Counter[float]:
    """Every number in the matrices, bars and curves of a figure, except overlays."""
    results: list[Any] = []
    for trace in (t for figure in figures(picture, colors) for t in figure.data):
        if trace.type == "heatmap":
            if "%{z" in trace.hovertemplate or trace.coloraxis:  # else an overlay
                results += np.asarray(trace.z, float).ravel().tolist()
        else:
            results += [n for side in (trace.x, trace.y) for n in numbers(side)]
    return rounded(results)


def figures(picture: Picture, colors: Palette) -> list[Any]:
    """A picture as Plotly's figures; a lens has a matrix and curves."""
    matrix = [drawn(picture.tokens, colors)] if isinstance(picture, Lens) else []
    return [*matrix, drawn(picture, colors)]


def numbers(side: Any) -> list[float]:
    return [float(n) for n in side if not isinstance(n, str) and n is not None]


def rounded(result: Any) -> Counter[float]:
    return Counter(round(float(n), 5) for n in result if np.isfinite(n))


def test_samples_have_every_kind_of_picture() -> None:
    known = (*vars(picture).values(), *vars(every_head).values(), Lines, Still, Wiring)
    every = {kind for kind in known if isinstance(kind, type)}
    drawable = {kind for kind in every if issubclass(kind, Picture)} - {Picture}
    assert {type(sample) for sample in PICTURES.values()} == drawable


@EVERY
def test_a_picture_cannot_be_changed(picture: Picture) -> None:
    for field in fields(picture):
        with pytest.raises(FrozenInstanceError):
            setattr(picture, field.name, None)
        assert not isinstance(getattr(picture, field.name), list)


# Numbers of lines and edges become widths, those of stills shades; maps are SVG only.
def test_all_numbers_of_a_picture_are_drawn(subtests: pytest.Subtests) -> None:
    for kind in sorted(set(PICTURES) - {"head maps", "lines", "still", "wiring"}):
        for colors in (LIGHT, DARK):
            with subtests.test(kind=kind, colors=colors):
                picture = PICTURES[kind]
                expected: list[Any] = [
                    n for panel in picture.matrices for n in panel.values.ravel()
                ]
                expected += [
                    n for s in picture.series for side in (s.x, s.y) for n in numbers(side)
                ]
                assert not rounded(expected) - drawn_numbers(picture, colors)


@EVERY
def test_the_table_has_every_number_in_its_row_and_column(picture: Picture) -> None:
    table = picture.table()
    if isinstance(picture, Lines):
        drawn = [panel.values[panel.values >= picture.threshold] for panel in picture.panels]
        assert_allclose(table["value"], np.concatenate(drawn))
        ends = picture.rows.plain_names(), picture.columns.plain_names()
        cells = [
            cell for p in picture.panels for cell in np.argwhere(p.values >= picture.threshold)
        ]
        assert table["query"].tolist() == [ends[0][query] for query, _ in cells]
        names = [source.name for source in picture.sources for _ in source.weights]
        assert table["picture"].tolist() == names
        assert table["key"].tolist() == [ends[1][key] for _, key in cells]
        return
    matrices, series = [], []
    for panel in picture.matrices:
        down, across = panel.rows.title or "row", panel.columns.title or "column"
        rows, columns = panel.rows.plain_names(), panel.columns.plain_names()
        part = table[table["picture"] == panel.whole_title] if len(picture.matrices) > 1 else table
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                (value,) = part[(part[down] == row) & (part[across] == column)]["value"].head(1)
                assert value == panel.values[i, j]
                matrices.append(value)
    for s in picture.series:
        part = table[table["series"] == (s.name or picture.what)]
        assert part["series"].all()
        assert part["x"].tolist() == list(s.x) or len(part) > len(s.x)
        series += list(s.x)
    assert len(table) == len(matrices) + len(series)


@EVERY
def test_alt_text_names_the_largest_number(picture: Picture) -> None:
    text = export.alt_text(picture)
    assert text
    for panel in picture.matrices if len(picture.matrices) < 5 else ():
        several = np.count_nonzero(panel.values, axis=1) > 1
        assert f"largest {panel.values[several].max():.3g} at " in text
        if panel.values.min() < 0:
            assert f"smallest {panel.values.min():.3g} at " in text


@EVERY
def test_light_drawings_have_no_dark_colours(picture: Picture) -> None:
    """Also if a token's text is a colour of the dark palette."""
    only_dark = colors_of(DARK) - colors_of(LIGHT)
    if isinstance(picture, svg.Drawable):
        light, dark = (
            re.sub(">[^<>]*<", "", svg.draw(picture, colors).svg()) for colors in (LIGHT, DARK)
        )
        assert not set(COLOR.findall(light)) & only_dark
        assert set(COLOR.findall(dark)) & only_dark
        return
    drawn = [
        {color for figure in figures(picture, colors) for color in painted(figure.to_plotly_json())}
        for colors in (LIGHT, DARK)
    ]
    assert drawn[0] & colors_of(LIGHT)
    assert not drawn[0] & only_dark
    assert drawn[1] & only_dark


def colors_of(palette: Palette) -> set[str]:
    return set(COLOR.findall(repr(palette)))


def painted(part: Any, key: str = "") -> Any:
    """Every colour used in a figure, without its texts."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name not in TEXTS:
                yield from painted(value, name)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from painted(value, key)
    elif isinstance(part, str):
        yield from COLOR.findall(part)


def test_figures_of_a_trace_have_alt_text_and_table(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, [5, 7, 5])
    for figure in (trace.heatmap(1, 0), trace.heads(1), trace.overview()):
        assert export.alt_text(figure.picture)
        pd.testing.assert_frame_equal(export.figure_table(figure), figure.picture.table())
    values = export.figure_table(trace.overview())["value"].to_numpy().reshape(3, 4, 3, 3)
    for layer, heads in enumerate(values):
        assert_allclose(heads, trace.stage("weights", layer)[0])


def test_causes_of_a_mask_are_named(tiny: gpt2viz.Model) -> None:
    for causal, edits, causes in (
        (True, "", (True, False, False)),
        (False, "", (False, False, False)),
        (True, "window:2", (True, True, False)),
    ):
        run = gpt2viz.trace(tiny, [5, 7, 5], causal=causal, edits=edits)
        assert mask_causes(run) == causes


def test_a_figure_of_other_origin_has_no_table() -> None:
    import plotly.graph_objects as go

    foreign = go.Figure(go.Bar(x=["a"], y=[1]))
    with pytest.raises(gpt2viz.ExportError, match="isn't one that gpt2viz drew"):
        export.figure_table(foreign)
    assert "<h1>gpt2viz</h1>" in export.page_html([("gpt2viz", foreign)])


def test_a_thumbnails_block_is_hidden_if_all_its_cells_are() -> None:
    masked = np.triu(np.ones((80, 80), bool), 1)
    tiles = Thumbnails("what", np.zeros((1, 1, 40, 40), np.float32), masked, ["x"] * 80)
    for i, j in np.ndindex(40, 40):
        assert tiles.hidden[i, j] == masked[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].all()
    assert tiles.starts[:3] == [0, 2, 4]


def test_a_negative_share_has_a_true_minus() -> None:
    result = FewestHeads((1, 2), 3, ((0, 0), (0, 1)), np.array([1, 0.5, -0.25]))
    (curve,) = faithfulness_curve("kept", result).curves
    assert curve.hover[-1].startswith("1 head left: −25.0 %")


LABELS = ("A", "·<b>crane</b>", "·ate")
WEIGHTS = ((1, 0, 0), (0.25, 0.75, 0), (0.8, 0.15, 0.05))


def panel(values: object, title: str = "Head 2") -> Panel:
    numbers = np.array(values, np.float32)
    return Panel(title, numbers, Axis("query", LABELS), Axis("key", LABELS), name="2")


def test_alt_text_of_a_matrix(subtests: pytest.Subtests) -> None:
    cases: list[tuple[object, str]] = [
        (WEIGHTS, "3 × 3, largest 0.8 at query 2 ·ate, key 0 A."),  # not the first row's 1
        (
            ((1, -3, 0), (0.5, 0, 0.25), (2.5, 0, -4.125)),
            "3 × 3, largest 2.5 at query 2 ·ate, key 0 A, smallest -4.12 at query 2 ·ate,"
            " key 2 ·ate.",
        ),
        (np.eye(3), "3 × 3, largest 1 at query 0 A, key 0 A."),
        (np.zeros((3, 3)), "All are 0."),
        (np.full((3, 3), np.nan), "No finite number."),
        (
            ((2, np.nan, np.nan), (5, -np.inf, 1), (0, 1, np.inf)),
            "3 × 3, largest 5 at query 1 ·<b>crane</b>, key 0 A.",
        ),
    ]
    for values, text in cases:
        with subtests.test(values=values, said=text):
            assert alt_text(Heatmaps("what", [panel(values)])) == text


def test_alt_text_of_several_matrices() -> None:
    two = [panel(WEIGHTS, "Mask on"), panel(np.zeros((3, 3)), "Mask off")]
    assert alt_text(Heatmaps("what", two, n_columns=2)) == (
        "Mask on: 3 × 3, largest 0.8 at query 2 ·ate, key 0 A. Mask off: all are 0."
    )
    many = [panel(np.array(WEIGHTS) / n, f"Head {n}") for n in range(1, 7)]
    assert alt_text(Heatmaps("what", many[::-1], n_columns=3)) == (
        "6 matrices; of all of them Head 1: 3 × 3, largest 0.8 at query 2 ·ate, key 0 A."
    )


def test_alt_text_of_bars_and_curves() -> None:
    bars = probability_bars("what", ["·fish", "·<b>"], {"on": [12.5, 40], "off": [3, 1]})
    assert alt_text(bars) == "On: 2 bars, highest 40 at ·<b>. Off: 2 bars, highest 3 at ·fish."
    rare = probability_bars("what", ["a", "b"], {"on": [0.004, 0]}).cases[0]
    assert [*rare.written, *rare.hover] == ["<0.01 %", "0.00 %", "a: 0.0040 %", "b: 0.0000 %"]
    curve = Curve("held-out text", [0, 1, 2], [10.5, 4, 3.761], "accent", ("", "", ""))
    across = Curves("what", [curve], "x", "y")
    assert alt_text(across) == "Held-out text: from 10.5 at 0 to 3.76 at 2."
    broken = Curve("cosine", [0, 1, 2, 3], [np.nan, 0.5, 0.25, np.inf], "accent", [""] * 4)
    assert alt_text(Curves("what", [broken], "x", "y")) == "Cosine: from 0.5 at 1 to 0.25 at 2."
    panel = Panel(
        "next",
        np.array([[0.5], [1]], np.float32),
        Axis("", ["embeddings", "layer 3"], numbered=False),
        Axis("after token", ["A"]),
    )
    down = Reading("", [5120, 1], [2.5, 0], ("accent", "second"), "circle")
    assert alt_text(Lens("what", panel, [down])) == (
        "2 × 1, largest 1 at layer 3, after token 0 A. Rank of the answer: from 5,120 at "
        "embeddings to 1 at layer 3. Entropy (bits): from 2.5 at embeddings to 0 at layer 3."
    )
    assert alt_text(Curves("what", (), "x", "y")) == ""


def test_lines_go_from_row_to_column() -> None:
    values = np.array([[1, 0, 0], [0.995, 0.005, 0], [0.25, 0.5, 0.25]])
    result = lines("what", [square(values)], ["Head 0"])
    (only,) = result.sources
    assert [*zip(only.queries, only.keys, strict=True)] == [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert_allclose(only.weights, [1, 0.995, 0.25, 0.5, 0.25], rtol=1e-6)
    assert (result.threshold, result.at_rest, result.peak) == (0.01, 0.01, 1)
    assert_allclose(result.lost, 0.005 / 3, rtol=1e-5)


def test_masked_and_nan_cells_have_no_lines() -> None:
    values, every = np.array([[1, 0.5], [np.nan, 1]]), np.ones((2, 2), bool)
    (only,) = lines("what", [square(values, np.triu(every, 1))], ["Head 0"]).sources
    assert only.queries.tolist() == only.keys.tolist() == [0, 1]
    hidden = lines("what", [square(values, every)], ["Head 0"]).table()
    assert list(hidden) == ["picture", "query", "key", "value"]  # also in an empty file


def test_lines_of_lengths_have_their_own_scale() -> None:
    result = lines("what", [square(np.array([[8, 0.05], [0.1, 4]]))], ["Head 0"], unit=False)
    assert result.peak == 8
    assert result.threshold == 0.08
    assert result.sources[0].weights.tolist() == pytest.approx([8, 0.1, 4])


def test_lines_of_a_long_text_keep_the_widest() -> None:
    generator = np.random.default_rng(0)
    four = [square(generator.dirichlet(np.full(256, 0.3), 256)) for _ in range(4)]
    result = lines("what", four, list("abcd"))
    every = np.stack([panel.values for panel in four])
    assert (every >= result.at_rest).sum() <= AT_REST
    assert sum(len(source.weights) for source in result.sources) <= MOST_LINES
    assert min(source.weights.min() for source in result.sources) >= result.threshold
    assert_allclose(result.lost, every[every < result.threshold].sum() / every.sum(), rtol=1e-4)


@pytest.mark.parametrize(("n_panels", "n_tokens"), [(5, 3), (1, 257)])
def test_lines_of_too_many_heads_or_tokens_are_refused(n_panels: int, n_tokens: int) -> None:
    with pytest.raises(ValueError, match="at most 4 of 256"):
        lines("what", [square(np.eye(n_tokens))] * n_panels, ["Head"] * n_panels)
