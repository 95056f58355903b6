"""Scores from the weights alone: of each head's circuit, and of published heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpt2viz
from gpt2viz.analysis.circuits import every_circuit
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES, weight_scores
from gpt2viz.model import hub
from tests.checkpoints import write_checkpoint
from tests.oracles import FAMILIES, write_model


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_score_equals_the_heads_circuit(tmp_path: Path, family: str) -> None:
    """``test_circuits`` compares these with full circuits and loops over positions."""
    shares: list[float] = []
    model = gpt2viz.load_model(write_model(tmp_path, family))
    result = weight_scores(model, shares.append)
    assert list(result) == list(WEIGHT_SCORES)
    assert {scores.shape for scores in result.values()} == {(3, 4)}
    assert shares == pytest.approx(np.arange(1, 13) / 12)
    for circuit in every_circuit(model):
        expected = {
            "previous token": circuit.place_weights.by_distance[1],
            "first token": circuit.place_weights.first,
            "offset": circuit.offset,
            "copying": circuit.copying_score,
            "same token": circuit.matching_score,
        }
        at = {name: float(values[circuit.layer, circuit.head]) for name, values in result.items()}
        assert at == pytest.approx(expected)


def test_single_position_has_no_neighbour(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_positions=1)
    result = weight_scores(gpt2viz.load_model(tmp_path))
    for name in ("previous token", "first token", "offset"):
        assert np.isnan(result[name]).all()
    assert np.isfinite(result["copying"]).all()


def test_guide_lists_the_scores() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "researchers.md").read_text(encoding="utf-8")
    for score in WEIGHT_SCORES.values():
        formula = score.formula.replace("|", "\\|")
        assert f"| {score.name} | {formula} |" in guide


def test_published_heads_of_gpt2_small() -> None:
    """11.11 copies; 10.7 and 11.10 suppress what they look at (McDougall et al. 2023); 4.7 is a hub
    of the wiring that passes on what was written (Yamagiwa et al. 2026)."""
    folder = hub.cached_models().get("gpt2") or hub.cached_models().get("openai-community/gpt2")
    if folder is None:
        pytest.skip("gpt2 isn't on this machine")
    small = gpt2viz.load_model(folder)
    copying = weight_scores(small)["copying"]
    assert copying[11, 11] > 0.5
    assert copying[10, 7] < -0.5
    assert copying[11, 10] < -0.5
    edges = gpt2viz.composition(small).strongest(60)
    touched = [head for edge in edges for head in (edge.sender, edge.receiver)]
    assert touched.count((4, 7)) == max(map(touched.count, touched))
