"""The Layers page's strip: one head in every layer, against the NumPy GPT-2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from safetensors.numpy import load_file

import gpt2viz
from gpt2viz.app.views.measures import MEASURES
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import button_groups, canvas, figure, heatmaps, open_page, unpacked
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
    for layer, shown in strip(head="4").items():
        assert_allclose(shown, run["weights"][int(layer)][4], **TOLERANCE)


def test_what_a_head_gives_in_every_layer(run: dict[str, np.ndarray]) -> None:
    stored = load_file(BUNDLED / "model.safetensors")
    for layer, shown in strip(head="4", show="norms", words="true").items():
        (name,) = [n for n in stored if n.endswith(f"h.{layer}.attn.c_proj.weight")]
        part = stored[name].astype(np.float64)[32 * 4 : 32 * 5]
        lengths = np.linalg.norm(run["v"][int(layer)][4] @ part, axis=1)
        assert_allclose(shown, run["weights"][int(layer)][4] * lengths, rtol=5e-3, atol=5e-3)


def test_the_mean_of_heads_in_every_layer(run: dict[str, np.ndarray]) -> None:
    for layer, shown in strip(compare="mean", show="norms").items():
        assert_allclose(shown, np.mean(run["weights"][int(layer)], axis=0), **TOLERANCE)


def test_the_strip_has_its_own_code_and_no_words_of_the_pictures_above_it() -> None:
    """Under every measure: said before the strip is that weights go from 0 to 1."""
    wrong = []
    for shown, does in zip(MEASURES, ("", "without_first", "value_weighted"), strict=True):
        at = open_page("side_by_side", text=TEXT, head="4", show=shown)
        ends = [panel["high"] for panel in unpacked(canvas(at, "strip_chart"))[0]["panels"]]
        parts = [part for part in at.main if part.type in ("bidi_component", "caption")]
        (strip,) = (n for n, part in enumerate(parts) if "strip_chart" in str(part.proto))
        (said,) = (n for n, part in enumerate(parts) if "from 0 to 1" in str(part.proto))
        if said > strip and ends != [1] * len(ends):
            wrong.append(f"{shown}: {parts[said].proto}, up to {ends}")
        code = "\n".join(block.value for block in at.code)
        if does and f"def {does}(" not in code:
            wrong.append(f"{shown}: no code of {does}")
    assert not wrong, "\n".join(wrong)


def drawn(at: Any) -> list[str]:
    return [note["text"] for note in figure(at, "layers_chart")["layout"]["annotations"]]


def test_the_head_that_is_chosen_on_any_page_is_shown_in_its_layer() -> None:
    at = open_page("side_by_side", text=TEXT, layer="2", head="3")
    assert drawn(at) == ["Layer 0 · head 3", "Layer 2 · head 3"]
    at = open_page("side_by_side", text=TEXT, layer="0", head="1")
    assert drawn(at) == ["Layer 0 · head 1", "Layer 3 · head 1"]
    opening = open_page("attention", text=TEXT).session_state
    at = open_page("side_by_side", text=TEXT)
    assert drawn(at)[-1] == f"Layer {opening['layer'] or 3} · head {opening['head']}"


def test_a_head_that_is_picked_among_layers_is_chosen_on_every_page() -> None:
    at = open_page("side_by_side", text=TEXT, layer="2", compare="mean")
    assert drawn(at) == ["Layer 0 · mean of all heads", "Layer 2 · mean of all heads"]
    for picked, told in ((5, "head 5"), ("rollout", "rollout"), (1, "head 1")):
        (heads,) = [group for group in button_groups(at) if group.key == "_head_or_whole"]
        heads.set_value(picked).run()
        assert drawn(at) == [f"Layer 0 · {told}", f"Layer 2 · {told}"]
        assert at.query_params.get("compare") == ("rollout" if picked == "rollout" else None)
    assert (at.query_params["layer"], at.query_params["head"]) == ("2", "1")
