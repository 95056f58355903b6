"""The code beside a picture is that of its numbers, with the line that made them marked."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.run.provenance import MARK
from tests.app.pages import ROOT, open_page


@pytest.mark.parametrize(
    ("page", "key", "layer"),
    [
        ("attention", "weights", 1),
        ("side_by_side", "weights", 0),
        ("side_by_side?differs=mask", "masked_scores", 0),
        ("predict", "last_logits", None),
        ("predict?predict=generate", "weights", 1),
        ("side_by_side?differs=text", "weights", 1),
    ],
)
def test_the_line_that_made_the_tensor_is_marked(page: str, key: str, layer: int | None) -> None:
    at = open_page(page, layer="1", head="2")
    record = gpt2viz.trace(gpt2viz.load_model(), "A crane ate fish").record(key, layer)
    assert record is not None
    marked = [
        block.value.partition(MARK)[2].splitlines()[1] for block in at.code if MARK in block.value
    ]
    assert any(record.code in line for line in marked)


def test_the_code_is_that_of_what_is_shown() -> None:
    at: AppTest = open_page("predict")
    said = "\n".join(block.value for block in at.code)
    for function in ("surprise", "logit_lens", "contributions", "sampling_distribution"):
        assert f"def {function}(" in said
    assert Path(gpt2viz.__file__).parent == ROOT / "gpt2viz"
