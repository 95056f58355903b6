"""The sheet of shapes, held against the tensors of a run."""

from __future__ import annotations

import re

import pytest

import gpt2viz
from gpt2viz.textbook import sizes
from tests.bundled import bundled_model


@pytest.mark.parametrize("text", ["A", "A crane ate fish"])
def test_the_sheet_has_the_shapes_of_the_tensors_that_are_made(text: str) -> None:
    model = bundled_model()
    run = gpt2viz.trace(model, text)
    page = sizes.shape_sheet(model.config, "<stories>", len(run.token_ids))
    cells = [re.findall(r"<td>(.*?)</td>", line) for line in page.splitlines()]
    listed = [(row[2], row[3]) for row in cells if len(row) == 4]
    made = [record for record in run.tensors if record.layer in (None, 0)]
    expected = [(f"({', '.join(one.axes)})", str(tuple(one.shape))) for one in made]
    assert listed == expected
    assert "<stories>" not in page
    assert "<h1>Shapes of &lt;stories&gt;</h1>" in page


def test_every_axis_of_the_sheet_is_explained() -> None:
    result = sizes.shape_rows(gpt2viz.GPT2Config(), 4)
    page = sizes.shape_sheet(gpt2viz.GPT2Config(), "GPT-2 small", 4)
    for axis in {axis for *_, axes, _ in result for axis in axes.strip("()").split(", ")} - {"1"}:
        assert f"<tr><td>{axis}</td>" in page
