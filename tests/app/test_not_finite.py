"""A run that left float32's range: the page says where, and no NaN is drawn as a number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from numpy.testing import assert_array_equal
from safetensors.torch import load_file, save_file

import gpt2viz
from gpt2viz.analysis.finite import first_not_finite
from gpt2viz.app import run_cache
from gpt2viz.pictures.from_trace import mask_of
from tests.app.pages import VIEWS, canvas, figure, heatmaps, of_head, open_page, pictures, unpacked
from tests.app.test_behaviour import said
from tests.checkpoints import with_stages, write_checkpoint


@pytest.fixture
def overflowing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A model whose scores in layer 1 are too large for float32, as the only listed one."""
    folder = tmp_path / "large"
    write_checkpoint(folder, n_positions=64)
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name in ("ln_1.weight", "attn.c_attn.weight"):
        weights[f"transformer.h.1.{name}"] *= 1e14
    save_file(weights, path, metadata={"format": "pt"})
    monkeypatch.setenv(run_cache.MODELS_VARIABLE, str(folder))
    st.cache_resource.clear()
    yield folder
    st.cache_resource.clear()


def test_the_first_tensor_is_named(overflowing: Path) -> None:
    trace = gpt2viz.trace(gpt2viz.load_model(overflowing), [5, 6, 7])
    found = first_not_finite(trace)
    assert found is not None
    assert (found.label, found.layer, found.n_numbers) == ("Raw scores", 1, 4 * 3 * 3)
    scores = trace.stage("scores", 1)
    assert found.n_infinite == np.isinf(scores).sum() > 0
    assert f"{found.n_infinite} infinite" in str(found)
    assert first_not_finite(gpt2viz.trace(gpt2viz.load_model(), "A crane")) is None


@pytest.mark.parametrize("page", [view for view in VIEWS if view not in ("textbook", "models")])
def test_every_page_says_so(overflowing: Path, page: str) -> None:
    at = open_page(page, model="large", layer="1")
    assert "Raw scores of layer 1" in said(at)


@pytest.mark.parametrize("chapter", ["crane", "heads"])
def test_the_story_goes_on_beyond_what_float32_can_hold(overflowing: Path, chapter: str) -> None:
    """In a model with fewer channels than fit on screen, too."""
    at = open_page("textbook", model="large", layer="1", chapter=chapter)
    assert "Raw scores of layer 1" in said(at)
    assert at.subheader[-1].value == "The same step in the real model"
    assert any(button.label.startswith("Next: ") for button in at.button)  # drawn to its end


@pytest.mark.parametrize(
    "page", ["predict", "predict?predict=generate", "what_if", "side_by_side?differs=mask"]
)
def test_nothing_is_predicted_from_nan(overflowing: Path, page: str) -> None:
    at = open_page(page, model="large", layer="1")
    assert "Nothing can be predicted from NaN" in said(at)
    assert not at.metric
    assert not any(part in name for name in pictures(at) for part in ("next", "lens", "changes"))


@pytest.mark.parametrize("what", ["text", "head", "mask", "edits"])
def test_two_sides_of_nan(overflowing: Path, what: str) -> None:
    at = open_page("side_by_side", model="large", layer="1", differs=what, edits="off:0.0")
    assert np.isnan(
        heatmaps(figure(at, "weights_b" if what == "text" else "both_sides"))["b"]
    ).any()
    assert (what == "head") != ("Nothing can be predicted from NaN" in said(at))


def test_heads_of_nan_are_not_compared(overflowing: Path) -> None:
    at = open_page("find", model="large", find="all")
    assert "its heads can't be compared" in said(at)
    assert not pictures(at)


@pytest.mark.parametrize("shown", ["weights", "rest", "norms"])
def test_nan_is_drawn_as_nan(overflowing: Path, shown: str) -> None:
    spec = figure(
        open_page("attention", model="large", layer="1", head="0", show=shown), "one_head"
    )
    trace = gpt2viz.trace(gpt2viz.load_model(overflowing), "A crane ate fish")
    lost = np.isnan(trace.stage("weights", 1)[0, 0])
    (numbers,) = heatmaps(spec).values()
    later = np.triu(np.ones((4, 4), bool), 1)
    assert_array_equal(np.isnan(numbers) & ~later, lost & ~later)
    assert lost.any()


def test_thumbnails_show_nan(overflowing: Path) -> None:
    tiles = heatmaps(figure(open_page("attention", model="large"), "all_heads"))
    for name, tile in tiles.items():
        assert np.isnan(tile).any() == (not name.startswith("0."))  # layer 0 is as it should be


@pytest.mark.usefixtures("overflowing")
def test_the_first_screen_says_nan() -> None:
    at = open_page("attention", model="large", layer="1", head="0", query="2")
    told = of_head(at)
    assert "**Head 1.0**: the weights of" in told
    assert "are NaN, not numbers" in told
    assert "What comes next" not in str([block.value for block in at.markdown])
    sent = unpacked(canvas(at, "all_heads"))[0]
    assert sent["next"] == "Prediction: NaN, not a number"
    open_page("attention", model="large")


def test_a_score_of_minus_infinity_is_not_called_masked(tiny: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(tiny, [5, 6, 7])
    for key in ("scaled_scores", "masked_scores"):
        changed = trace.stage(key, 0).copy()
        changed[0, 2, 1, 0] = -np.inf
        trace = with_stages(trace, {(key, 0): changed})
    expected = np.triu(np.ones((3, 3), bool), 1)
    assert_array_equal(mask_of(trace, 0, 2), expected)
    assert_array_equal(mask_of(trace, 0, 1), expected)


@pytest.mark.parametrize("edits", ["", "forbid:2:1,window:2"])
def test_a_long_run_tells_its_mask_without_making_scores(tiny: gpt2viz.Model, edits: str) -> None:
    short, long = (
        gpt2viz.trace(tiny, [5, 6, 7], explicit=explicit, edits=gpt2viz.parse_edits(edits))
        for explicit in (True, False)
    )
    assert_array_equal(mask_of(long, 0, 2), mask_of(short, 0, 2))
    assert not long.derived.nbytes
