"""Every kind of picture: a value without colours, drawn, put into words and tables as it is."""

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
from gpt2viz.pictures import every_head, picture, svg
from gpt2viz.pictures.circuits import Wiring
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.frames import Still
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.palette import DARK, LIGHT, Palette
from gpt2viz.pictures.patching import faithfulness_curve
from gpt2viz.pictures.picture import Picture
from gpt2viz.pictures.plotly.render import render
from tests.pictures.samples import one_of_every_kind

PICTURES = one_of_every_kind()
EVERY = pytest.mark.parametrize("picture", PICTURES.values(), ids=list(PICTURES))
COLOR = re.compile(r"#[0-9a-f]{6}\b")
#: Parts of a figure that hold no colour of ours, whatever they read like.
TEXTS = {"x", "y", "z", "text", "customdata", "ticktext", "categoryarray", "template"}


def drawn_numbers(picture: Picture, colors: Palette) -> Counter[float]:
    """Every number of the matrices, bars and curves of a figure, but for what is painted over."""
    found: list[Any] = []
    for trace in render(picture, colors).data:
        if trace.type == "heatmap":
            if "%{z" in trace.hovertemplate or trace.coloraxis:  # else painted over
                found += np.asarray(trace.z, float).ravel().tolist()
        else:
            found += [n for side in (trace.x, trace.y) for n in numbers(side)]
    return rounded(found)


def numbers(side: Any) -> list[float]:
    return [float(n) for n in side if not isinstance(n, str) and n is not None]


def rounded(found: Any) -> Counter[float]:
    return Counter(round(float(n), 5) for n in found if np.isfinite(n))


def test_every_kind_is_here() -> None:
    known = (*vars(picture).values(), *vars(every_head).values(), Lines, Still, Wiring)
    every = {kind for kind in known if isinstance(kind, type)}
    drawable = {kind for kind in every if issubclass(kind, Picture)} - {Picture}
    assert {type(one) for one in PICTURES.values()} == drawable


@EVERY
def test_a_picture_cannot_be_changed(picture: Picture) -> None:
    for field in fields(picture):
        with pytest.raises(FrozenInstanceError):
            setattr(picture, field.name, None)
        assert not isinstance(getattr(picture, field.name), list)


# The number of a line and of an edge is its width, that of a still its shade.
def test_the_numbers_of_a_picture_are_drawn(subtests: pytest.Subtests) -> None:
    for kind in sorted(set(PICTURES) - {"lines", "still", "wiring"}):
        for colors in (LIGHT, DARK):
            with subtests.test(kind=kind, colors=colors):
                picture = PICTURES[kind]
                wanted: list[Any] = [n for panel in picture.matrices for n in panel.values.ravel()]
                wanted += [
                    n for one in picture.series for side in (one.x, one.y) for n in numbers(side)
                ]
                missing = rounded(wanted) - drawn_numbers(picture, colors)
                assert not missing


@EVERY
def test_the_table_has_every_number_in_its_place(picture: Picture) -> None:
    table = picture.table()
    if isinstance(picture, Lines):
        kept = [panel.values[panel.values >= picture.kept] for panel in picture.panels]
        assert_allclose(table["value"], np.concatenate(kept))
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
    for one in picture.series:
        part = table[table["series"] == (one.name or picture.what)]
        assert part["series"].all()
        assert part["x"].tolist() == list(one.x) or len(part) > len(one.x)
        series += list(one.x)
    assert len(table) == len(matrices) + len(series)


@EVERY
def test_words_say_what_is_largest(picture: Picture) -> None:
    said = export.alt_text(picture)
    assert said
    for panel in picture.matrices if len(picture.matrices) < 5 else ():
        several = np.count_nonzero(panel.values, axis=1) > 1
        assert f"largest {panel.values[several].max():.3g} at " in said
        if panel.values.min() < 0:
            assert f"smallest {panel.values.min():.3g} at " in said


@EVERY
def test_paper_is_light(picture: Picture) -> None:
    """Also where a token's text is one of the dark page's colours."""
    only_dark = colors_of(DARK) - colors_of(LIGHT)
    if isinstance(picture, svg.Drawable):
        light, dark = (
            re.sub(">[^<>]*<", "", svg.draw(picture, one).svg()) for one in (LIGHT, DARK)
        )
        assert not set(COLOR.findall(light)) & only_dark
        assert set(COLOR.findall(dark)) & only_dark
        return
    printed = export.on_paper(picture, export.About("what")).to_plotly_json()
    found = set(painted(printed["data"])) | set(painted(printed["layout"]))
    assert found & colors_of(LIGHT)
    assert not found & only_dark
    on_dark = render(picture, DARK).to_plotly_json()
    assert {*painted(on_dark["data"]), *painted(on_dark["layout"])} & only_dark


def colors_of(palette: Palette) -> set[str]:
    return set(COLOR.findall(repr(palette)))


def painted(part: Any, key: str = "") -> Any:
    """Every colour of a figure, wherever something is painted in it; no text of it."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name not in TEXTS:
                yield from painted(value, name)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from painted(value, key)
    elif isinstance(part, str):
        yield from COLOR.findall(part)


def test_a_figure_says_of_itself_what_its_picture_does(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, [5, 7, 5])
    for figure in (trace.heatmap(1, 0), trace.heads(1), trace.overview()):
        assert export.alt_text(figure.picture)
        pd.testing.assert_frame_equal(export.figure_table(figure), figure.picture.table())
    values = export.figure_table(trace.overview())["value"].to_numpy().reshape(3, 4, 3, 3)
    for layer, heads in enumerate(values):
        assert_allclose(heads, trace.stage("weights", layer)[0])


def test_a_foreign_figure_has_no_numbers_to_read() -> None:
    import plotly.graph_objects as go

    foreign = go.Figure(go.Bar(x=["a"], y=[1]))
    with pytest.raises(gpt2viz.ExportError, match="isn't one that gpt2viz drew"):
        export.figure_table(foreign)
    assert "<h1>gpt2viz</h1>" in export.page_html([("gpt2viz", foreign)])


def test_a_thumbnail_is_hidden_where_all_its_cells_are() -> None:
    masked = np.triu(np.ones((80, 80), bool), 1)
    tiles = Thumbnails("what", np.zeros((1, 1, 40, 40), np.float32), masked, ["x"] * 80)
    for i, j in np.ndindex(40, 40):
        assert tiles.hidden[i, j] == masked[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].all()
    assert tiles.starts[:3] == [0, 2, 4]


def test_a_share_below_none_has_a_true_minus() -> None:
    found = FewestHeads((1, 2), 3, ((0, 0), (0, 1)), np.array([1, 0.5, -0.25]))
    (curve,) = faithfulness_curve("kept", found).curves
    assert curve.said[-1].startswith("1 head left: −25.0 %")
