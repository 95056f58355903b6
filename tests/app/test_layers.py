"""The Layers page's strip: one head in every layer, against the NumPy GPT-2."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from safetensors.numpy import load_file

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import figure, heatmaps, open_page
from tests.numpy_gpt2 import Tolerance, reference

TEXT = "Man bites dog"
TOLERANCE: Tolerance = {"rtol": 2e-3, "atol": 2e-3}


@pytest.fixture(scope="module")
def run() -> dict[str, np.ndarray]:
    return reference(BUNDLED, gpt2viz.load_model().tokenizer.encode(TEXT), causal=True)


def strip(**parameters: str) -> dict[str, np.ndarray]:
    found = heatmaps(figure(open_page("side_by_side", text=TEXT, **parameters), "strip_chart"))
    assert list(found) == ["0", "1", "2", "3"]
    return found


def test_one_head_in_every_layer(run: dict[str, np.ndarray]) -> None:
    for layer, shown in strip(compare="4").items():
        assert_allclose(shown, run["weights"][int(layer)][4], **TOLERANCE)


def test_what_a_head_gives_in_every_layer(run: dict[str, np.ndarray]) -> None:
    stored = load_file(BUNDLED / "model.safetensors")
    for layer, shown in strip(compare="4", show="norms", words="true").items():
        (name,) = [n for n in stored if n.endswith(f"h.{layer}.attn.c_proj.weight")]
        part = stored[name].astype(np.float64)[32 * 4 : 32 * 5]
        lengths = np.linalg.norm(run["v"][int(layer)][4] @ part, axis=1)
        assert_allclose(shown, run["weights"][int(layer)][4] * lengths, rtol=5e-3, atol=5e-3)


def test_the_mean_of_heads_in_every_layer(run: dict[str, np.ndarray]) -> None:
    for layer, shown in strip(show="norms").items():
        assert_allclose(shown, np.mean(run["weights"][int(layer)], axis=0), **TOLERANCE)
