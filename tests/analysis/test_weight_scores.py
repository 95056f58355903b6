"""Scores by the weights alone, against whole circuits and places taken one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpt2viz
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES, weight_scores
from gpt2viz.model import hub
from tests.analysis.test_circuits import largest, of_places, whole
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import softmax
from tests.oracles import FAMILIES, oracle, written


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_score_is_that_of_the_whole_circuits(tmp_path: Path, family: str) -> None:
    shares: list[float] = []
    model = gpt2viz.load_model(written(tmp_path, family))
    result, of, hs = weight_scores(model, shares.append), oracle(tmp_path), model.config.head_dim
    assert list(result) == list(WEIGHT_SCORES)
    assert {scores.shape for scores in result.values()} == {(3, 4)}
    assert shares == pytest.approx(np.arange(1, 13) / 12)
    for layer, head in ((0, 3), (1, 1), (2, 0)) if family == "gpt2" else ((1, 1),):
        circuit = whole(of, layer, head)
        scores, seen, _ = of_places(of, model.config, layer, head)
        n = len(scores)
        weights = softmax(np.where(np.tri(n, dtype=bool) & seen, scores, -np.inf))
        by_distance = np.zeros(n)
        for query in range(1, n):
            for key in range(query + 1):
                by_distance[query - key] += weights[query, key] / (n - 1)
        expected = {
            "previous token": by_distance[1],
            "first token": np.mean([weights[query, 0] for query in range(1, n)]),
            "offset": by_distance.argmax(),
            "copying": np.trace(circuit.ov) / np.abs(largest(circuit.ov, hs)).sum(),
            "same token": np.trace(circuit.qk) / np.abs(largest(circuit.qk, hs)).sum(),
        }
        for name, values in result.items():
            assert values[layer, head] == pytest.approx(expected[name], abs=1e-5), name


def test_a_single_place_has_no_neighbour(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_positions=1)
    result = weight_scores(gpt2viz.load_model(tmp_path))
    for name in ("previous token", "first token", "offset"):
        assert np.isnan(result[name]).all()
    assert np.isfinite(result["copying"]).all()


def test_the_guide_lists_them() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "researchers.md").read_text(encoding="utf-8")
    for score in WEIGHT_SCORES.values():
        formula = score.formula.replace("|", "\\|")
        assert f"| {score.name} | {formula} |" in guide


def test_the_published_heads_of_gpt2_small() -> None:
    """11.11 copies; 10.7 and 11.10 suppress what they look at (McDougall et al. 2023); 4.7 is a hub
    of the wiring that passes on what was written (Yamagiwa et al. 2026)."""
    folder = hub.cached().get("gpt2") or hub.cached().get("openai-community/gpt2")
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
