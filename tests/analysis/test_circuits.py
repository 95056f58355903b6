"""Circuits from a head's weights alone, compared with full (n_vocab, n_vocab) matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis import circuits
from gpt2viz.analysis.circuits import HeadCircuit, every_circuit, head_circuit
from tests.analysis.copying_model import copying_model
from tests.checkpoints import ODD, write_checkpoint
from tests.numpy_gpt2 import softmax
from tests.oracles import FAMILIES, Oracle, oracle, write_model

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "odd": {**ODD, "n_positions": 7},
    "one head as wide as the stream": {"n_head": 1, "n_embd": 8},
}
LLAMAS = [family for family in FAMILIES if family != "gpt2"]


@pytest.fixture(scope="module", params=[*SHAPES, *LLAMAS])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("circuits")
    if request.param in SHAPES:
        return write_checkpoint(folder, **SHAPES[request.param])
    return write_model(folder, request.param)


@dataclass
class FullCircuits:
    """A head's full circuits as in the papers, from the files, with nothing folded.

    ``top_keys`` has a matrix for each requested distance.
    """

    ov: np.ndarray
    qk: np.ndarray
    writes: np.ndarray
    top_keys: list[np.ndarray]


def centred(x: np.ndarray, axis: int) -> np.ndarray:
    return x - x.mean(axis=axis, keepdims=True)


def linear(of: Oracle, x: np.ndarray, layer: int | None) -> np.ndarray:
    """A norm without its division and bias."""
    return of.norm(x, x, layer) * of.scale(x)


def full_circuits(of: Oracle, layer: int, head: int, back: Sequence[int] = (0,)) -> FullCircuits:
    """The full circuits: (n_vocab, n_vocab) each."""
    E, U, W_O = of.embedding, of.unembedding, of.out_proj(layer)[0][head]

    def read(into: str, x: np.ndarray) -> np.ndarray:
        gain = of.qk_gain(into, layer)
        return of.read(into, layer, x)[of.row(into, head)] * (1 if gain is None else gain)

    raw = linear(of, E, layer)
    return FullCircuits(
        ov=centred(linear(of, read("v", raw) @ W_O, None) @ U.T, 1),
        qk=centred(read("q", raw) @ read("k", raw).T, 1),
        writes=centred(
            linear(of, read("v", of.norm(E, E, layer)) @ W_O, None) @ of.unembedding.T, 1
        ),
        top_keys=[centred(scores, 1) for scores in scores_of(of, layer, head, E, back)],
    )


def scores_of(
    of: Oracle, layer: int, head: int, x: np.ndarray, back: Sequence[int] = (0,)
) -> list[np.ndarray]:
    """Scores between streams (n, C), with the keys at each distance ``back``: (n, n) each."""
    raw = (of.read(into, layer, of.normed(x, layer), biased=True) for into in "qk")
    q, k = (
        of.qk_norm(into, layer, y, y)[of.row(into, head)] for into, y in zip("qk", raw, strict=True)
    )
    n = len(x)
    return [of.rotate(q, [d] * n) @ k.T / of.divisor(layer) for d in back]


def largest(matrix: np.ndarray, n: int) -> np.ndarray:
    """The n eigenvalues of a full matrix that are furthest from 0, sorted."""
    eigenvalues = np.linalg.eigvals(matrix)
    largest = np.argsort(-np.abs(eigenvalues))[:n]
    return np.sort_complex(eigenvalues[largest].round(6))


@pytest.mark.parametrize("blocks", [circuits.BLOCK, 500], ids=["one block", "many"])
def test_writes_and_top_keys_equal_full_circuits(
    folder: Path, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(circuits, "BLOCK", blocks)
    model = gpt2viz.load_model(folder)
    config, token = model.config, 219
    every = {(c.layer, c.head): c for c in every_circuit(model)}
    assert list(every) == list(np.ndindex(config.n_layer, config.n_head))
    of, backs = oracle(folder), (0, 3)
    for layer, head in ((0, config.n_head - 1), (2, 0)):
        circuit, expected = head_circuit(model, layer, head), full_circuits(of, layer, head, backs)
        size = np.abs(expected.writes[token]).max()
        for ranked, row in (
            (circuit.writes(token, 400), expected.writes[token]),
            *(
                (circuit.top_keys(token, 400, back), scores[token])
                for back, scores in zip(backs, expected.top_keys, strict=True)
            ),
        ):
            order = np.argsort(row)
            assert [n for n, _ in ranked.most[:9]] == order[::-1][:9].tolist()
            assert [n for n, _ in ranked.least[:9]] == order[:9].tolist()
            for n, value in (*ranked.most, *ranked.least):
                assert value == pytest.approx(row[n], abs=1e-6 * size)
        check_by_distance(of, circuit)
        assert every[layer, head].copying_score == circuit.copying_score
        assert every[layer, head].place_weights.first == circuit.place_weights.first


def place_scores(
    of: Oracle, config: gpt2viz.ModelConfig, layer: int, head: int
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Scores of all positions (n, n), which are visible, and the pairs at each distance.

    Without position vectors, a position's score is the mean of all pairs of tokens so far apart.
    """
    n = config.n_positions
    apart = np.abs(np.subtract.outer(range(n), range(n)))
    if vectors := of.position_vectors(n):
        (scores,) = scores_of(of, layer, head, vectors["position"])
        return scores, apart >= 0, [np.diagonal(centred(scores, 1), -back) for back in range(n)]
    pairs = [pair.ravel() for pair in scores_of(of, layer, head, of.embedding, range(n))]
    kernel = np.array([pair.mean() for pair in pairs])
    pairs = [pair - kernel.mean() for pair in pairs]
    return kernel[apart], apart < (config.window(layer) or n), pairs


def check_by_distance(of: Oracle, circuit: HeadCircuit) -> None:
    """Compare scores and weights by distance with all pairs of positions, or of tokens."""
    scores, seen, pairs = place_scores(of, circuit.ends.model.config, circuit.layer, circuit.head)
    n = len(scores)
    assert_allclose(circuit.by_distance.mean, [pair.mean() for pair in pairs], atol=1e-6)
    assert_allclose(circuit.by_distance.spread, [pair.std() for pair in pairs], atol=1e-6)
    weights = softmax(np.where(np.tri(n, dtype=bool) & seen, scores, -np.inf))[1:]
    given = [np.diagonal(weights, 1 - back).sum() / (n - 1) for back in range(n)]
    assert_allclose(circuit.place_weights.by_distance, given, atol=1e-7)
    assert circuit.place_weights.first == pytest.approx(weights[:, 0].mean())
    assert circuit.offset == np.argmax(given)


@pytest.mark.slow
def test_eigenvalues_equal_full_circuits(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    circuit, expected = head_circuit(model, 2, 0), full_circuits(oracle(folder), 2, 0)
    for eigenvalues, score, matrix in (
        (circuit.ov_eigenvalues, circuit.copying_score, expected.ov),
        (circuit.qk_eigenvalues, circuit.matching_score, expected.qk),
    ):
        every = largest(matrix, len(eigenvalues))
        mine = np.sort_complex(eigenvalues.round(6))
        assert_allclose(mine, every, atol=1e-5 * np.abs(every).max())
        assert score == pytest.approx(np.trace(matrix) / np.abs(every).sum(), abs=1e-6)
        assert -1 <= score <= 1


@pytest.mark.parametrize("text", [[5, 300, 17, 17, 219, 88], [7]])
def test_scores_equal_a_run_in_the_first_layer(folder: Path, text: list[int]) -> None:
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, text)
    for head in range(model.config.n_head):
        run = trace.stage("scores", 0, head)
        assert_allclose(head_circuit(model, 0, head).scores(text), run, atol=1e-5)
    deeper = head_circuit(model, 1, 0).scores(text)
    assert not np.allclose(deeper, trace.stage("scores", 1, 0), atol=1e-2)


@pytest.mark.parametrize("causal", [True, False], ids=["mask on", "mask off"])
def test_predicted_scores_and_their_correlation(tiny: gpt2viz.Model, causal: bool) -> None:
    trace = gpt2viz.trace(tiny, [5, 300, 17, 17, 219, 88], causal)
    circuit = head_circuit(tiny, 1, 2)
    forecast = circuit.predict_scores(trace)
    seen = np.tri(6, dtype=bool) if causal else np.ones((6, 6), bool)
    both = circuit.scores(trace.token_ids) / 6**0.5, trace.stage("scaled_scores", 1, 2)
    shown = [np.where(seen, scores, np.nan) for scores in both]
    mine, its = (scores - np.nanmean(scores, axis=1, keepdims=True) for scores in shown)
    assert_allclose(forecast.by_weights, mine, atol=1e-5)
    assert_allclose(forecast.in_run, its, atol=1e-5)
    r = np.corrcoef(mine[1:][seen[1:]], its[1:][seen[1:]])[0, 1]
    assert forecast.correlation == pytest.approx(r, abs=1e-5)
    first = head_circuit(tiny, 0, 2).predict_scores(trace)
    assert first.correlation == pytest.approx(1)
    assert np.isnan(circuit.predict_scores(gpt2viz.trace(tiny, [5, 300], causal)).correlation)


def test_head_that_writes_nothing_has_no_copying_score() -> None:
    assert np.isnan(head_circuit(copying_model(), 1, 0).copying_score)


def test_single_position(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_positions=1)
    circuit = head_circuit(gpt2viz.load_model(tmp_path), 0, 0)
    assert circuit.by_distance.mean.tolist() == circuit.by_distance.spread.tolist() == [0]
    assert np.isnan(circuit.place_weights.first)


def test_invalid_arguments_are_refused(tiny: gpt2viz.Model) -> None:
    for layer, head, text in ((3, 0, "layers 0 to 2"), (0, 4, "heads 0 to 3"), (-1, 0, "layer -1")):
        with pytest.raises(IndexError, match=text):
            head_circuit(tiny, layer, head)
    circuit = head_circuit(tiny, 1, 2)
    with pytest.raises(gpt2viz.ContextError):
        circuit.scores([1] * 25)
    assert circuit.writes(3, 1000).most == circuit.writes(3, 420).least[::-1]
    assert "layer 1, head 2, copying" in repr(circuit)
