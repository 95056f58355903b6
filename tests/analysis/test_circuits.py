"""A head's weights alone, against whole (n_vocab, n_vocab) circuits of a small vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis import circuits
from gpt2viz.analysis.circuits import every_circuit, head_circuit
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from tests.analysis.copying_model import copying_model
from tests.bundled import bundled_model
from tests.checkpoints import ODD, write_checkpoint
from tests.numpy_gpt2 import layer_norm, read, softmax

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "odd": {**ODD, "n_positions": 7},
    "one head as wide as the stream": {"n_head": 1, "n_embd": 8},
}


@pytest.fixture(scope="module", params=SHAPES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("circuits"), **SHAPES[request.param])


@dataclass
class Whole:
    """A head's circuits by the papers, from the files, nothing folded and everything whole."""

    ov: np.ndarray
    qk: np.ndarray
    writes: np.ndarray
    likes: np.ndarray
    places: np.ndarray


def whole(folder: Path, layer: int, head: int) -> Whole:
    """The full circuits (n_vocab, n_vocab), and the scores of all places (n, n)."""
    config, w = read(folder)
    C, nh = config["n_embd"], config["n_head"]
    hs, eps = C // nh, config["layer_norm_epsilon"]
    E, U = w["wte.weight"], w.get("lm_head.weight", w["wte.weight"])
    gain, shift = w[f"h.{layer}.ln_1.weight"], w[f"h.{layer}.ln_1.bias"]
    cut = slice(head * hs, (head + 1) * hs)
    Q, K, V = (part[:, cut] for part in np.split(w[f"h.{layer}.attn.c_attn.weight"], 3, axis=1))
    b_Q, b_K, _ = (part[cut] for part in np.split(w[f"h.{layer}.attn.c_attn.bias"], 3))
    O = w[f"h.{layer}.attn.c_proj.weight"][cut]  # noqa: E741

    def centred(x: np.ndarray, axis: int) -> np.ndarray:
        return x - x.mean(axis=axis, keepdims=True)

    def unembedded(x: np.ndarray) -> np.ndarray:
        return centred(centred(x, 1) * w["ln_f.weight"] @ U.T, 1)

    scale = hs**0.5 * (layer + 1 if config.get("scale_attn_by_inverse_layer_idx") else 1)
    flat = np.zeros(C)
    normed = layer_norm(E, gain, shift, eps)
    placed = layer_norm(w["wpe.weight"], gain, shift, eps)
    raw = centred(E, 1) * gain
    return Whole(
        ov=unembedded(raw @ V @ O),
        qk=centred(raw @ Q @ (raw @ K).T, 1),
        writes=unembedded(layer_norm(E, gain, flat, eps) @ V @ O),
        likes=centred((normed @ Q + b_Q) @ (normed @ K + b_K).T / scale, 1),
        places=centred((placed @ Q + b_Q) @ (placed @ K + b_K).T / scale, 1),
    )


def largest(matrix: np.ndarray, n: int) -> np.ndarray:
    """The n eigenvalues of a whole matrix that are furthest from 0, in an order of their own."""
    found = np.linalg.eigvals(matrix)
    return np.sort_complex(found[np.argsort(-np.abs(found))[:n]].round(6))


@pytest.mark.parametrize("blocks", [circuits.BLOCK, 500], ids=["one block", "many"])
def test_everything_is_that_of_the_whole_circuits(
    folder: Path, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(circuits, "BLOCK", blocks)
    model = gpt2viz.load_model(folder)
    config, token = model.config, 219
    every = {(c.layer, c.head): c for c in every_circuit(model)}
    assert list(every) == list(np.ndindex(config.n_layer, config.n_head))
    for layer, head in ((0, config.n_head - 1), (2, 0)):
        found, wanted = head_circuit(model, layer, head), whole(folder, layer, head)
        size = np.abs(wanted.writes[token]).max()
        for ranked, row in (
            (found.writes(token, 400), wanted.writes[token]),
            (found.likes(token, 400), wanted.likes[token]),
        ):
            order = np.argsort(row)
            assert [n for n, _ in ranked.most[:9]] == order[::-1][:9].tolist()
            assert [n for n, _ in ranked.least[:9]] == order[:9].tolist()
            for n, value in (*ranked.most, *ranked.least):
                assert value == pytest.approx(row[n], abs=1e-6 * size)
        n = config.n_positions
        for back in range(n):
            pairs = np.diagonal(wanted.places, -back)
            assert found.by_distance.mean[back] == pytest.approx(pairs.mean(), abs=1e-6)
            assert found.by_distance.spread[back] == pytest.approx(pairs.std(), abs=1e-6)
        seen = np.where(np.tri(n, dtype=bool), wanted.places, -np.inf)
        weights = softmax(seen)[1:]
        given = [np.diagonal(weights, 1 - back).sum() / (n - 1) for back in range(n)]
        assert_allclose(found.place_weights.by_distance, given, atol=1e-7)
        assert found.place_weights.first == pytest.approx(weights[:, 0].mean())
        assert found.offset == np.argmax(given)
        assert every[layer, head].copying_score == found.copying_score
        assert every[layer, head].place_weights.first == found.place_weights.first


@pytest.mark.slow
def test_eigenvalues_are_those_of_the_whole_circuits(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    found, wanted = head_circuit(model, 2, 0), whole(folder, 2, 0)
    for eigenvalues, score, matrix in (
        (found.ov_eigenvalues, found.copying_score, wanted.ov),
        (found.qk_eigenvalues, found.matching_score, wanted.qk),
    ):
        every = largest(matrix, len(eigenvalues))
        mine = np.sort_complex(eigenvalues.round(6))
        assert_allclose(mine, every, atol=1e-5 * np.abs(every).max())
        assert score == pytest.approx(np.trace(matrix) / np.abs(every).sum(), abs=1e-6)
        assert -1 <= score <= 1


@pytest.mark.parametrize("text", [[5, 300, 17, 17, 219, 88], [7]])
def test_scores_are_those_of_a_run_in_the_first_layer(folder: Path, text: list[int]) -> None:
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, text)
    for head in range(model.config.n_head):
        run = trace.stage("scores", 0, head)
        assert_allclose(head_circuit(model, 0, head).scores(text), run, atol=1e-5)
    deeper = head_circuit(model, 1, 0).scores(text)
    assert not np.allclose(deeper, trace.stage("scores", 1, 0), atol=1e-2)


@pytest.mark.parametrize("causal", [True, False], ids=["mask on", "mask off"])
def test_how_far_the_weights_foretell_a_run(tiny: gpt2viz.Model, causal: bool) -> None:
    trace = gpt2viz.trace(tiny, [5, 300, 17, 17, 219, 88], causal)
    circuit = head_circuit(tiny, 1, 2)
    found = circuit.foretells(trace)
    hidden = np.array([[causal and key > query for key in range(6)] for query in range(6)])
    run, wanted = trace.stage("scaled_scores", 1, 2), circuit.scores(trace.token_ids) / 6**0.5
    pairs: list[tuple[float, float]] = []
    for query, row in enumerate(found.in_run):
        seen = [key for key in range(6) if not hidden[query, key]]
        for key in range(6):
            if key not in seen:
                assert np.isnan(row[key])
                assert np.isnan(found.by_weights[query, key])
                continue
            mine = wanted[query, key] - np.mean([wanted[query, n] for n in seen])
            his = run[query, key] - np.mean([run[query, n] for n in seen])
            assert found.by_weights[query, key] == pytest.approx(mine, abs=1e-5)
            assert row[key] == pytest.approx(his, abs=1e-5)
            pairs += [(mine, his)] * (query > 0)
    r = np.corrcoef(np.transpose(pairs))[0, 1]
    assert found.correlation == pytest.approx(r, abs=1e-5)
    first = head_circuit(tiny, 0, 2).foretells(trace)
    assert first.correlation == pytest.approx(1)
    assert np.isnan(circuit.foretells(gpt2viz.trace(tiny, [5, 300], causal)).correlation)


def test_a_copying_head_built_by_hand() -> None:
    """Head 0.0 looks one back and only there; the copier of layer 1 matches what it wrote."""
    model = copying_model()
    before = head_circuit(model, 0, 0)
    mean, spread = before.by_distance
    n = model.config.n_positions
    assert before.offset == 1
    assert mean[1] > 5 * np.abs(np.delete(mean, 1)).max()
    # The last place's query finds the first, as the ring that it was built with is closed.
    assert_allclose(spread[2 : n - 1], 0, atol=1e-6)
    assert before.place_weights.by_distance[1] > 0.99
    assert before.place_weights.first == pytest.approx(1 / (n - 1), abs=0.01)


def hand_built(ov: np.ndarray) -> gpt2viz.Model:
    """One head of one layer that writes ``ov`` (12, 12) of each of twelve tokens' channels."""
    n = len(ov)
    config = GPT2Config(
        vocab_size=n, n_positions=3, n_embd=2 * n, n_layer=1, n_head=1, n_inner=1,
        layer_norm_epsilon=1e-9,
    )  # fmt: skip
    network = GPT2(config)
    inner: Any = network
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
        for norm in (inner.ln_f, inner.h[0].ln_1):
            norm.weight.fill_(1)
        inner.wte.weight[:, :n], inner.wte.weight[:, n:] = torch.eye(n), -torch.eye(n)
        inner.h[0].attn.c_attn.weight[4 * n : 5 * n, :n] = torch.eye(n)  # the value is the token
        written = torch.from_numpy(ov).float()
        inner.h[0].attn.c_proj.weight[:n, :n] = written.T
        inner.h[0].attn.c_proj.weight[n:, :n] = -written.T
    return gpt2viz.Model("by hand", config, network.eval(), bundled_model().tokenizer)


def test_copiers_and_their_opposites() -> None:
    copier, anti = (head_circuit(hand_built(s * np.eye(12)), 0, 0) for s in (1, -1))
    assert copier.copying_score == pytest.approx(1)
    assert anti.copying_score == pytest.approx(-1)
    assert [copier.writes(n, 1).most[0].token for n in range(12)] == list(range(12))
    assert [anti.writes(n, 1).least[0].token for n in range(12)] == list(range(12))
    turned, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 12)))
    assert abs(head_circuit(hand_built(turned), 0, 0).copying_score) < 0.25
    after = head_circuit(hand_built(np.roll(np.eye(12), 1, axis=1)), 0, 0)
    assert [after.writes(n, 1).most[0].token for n in range(12)] == [*range(1, 12), 0]
    assert np.isnan(head_circuit(hand_built(np.zeros((12, 12))), 0, 0).copying_score)


def test_heads_that_change_places_change_circuits(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    model, other = gpt2viz.load_model(tmp_path), gpt2viz.load_model(tmp_path)
    C, hs, order = 24, 6, (2, 0, 3, 1)
    rows = np.concatenate([np.arange(C).reshape(4, hs)[h] for h in order])
    with torch.no_grad():
        for name in ("weight", "bias"):
            qkv = other.network.get_parameter(f"h.1.attn.c_attn.{name}")
            qkv.copy_(qkv[np.concatenate([rows, rows + C, rows + 2 * C])].clone())
        merge = other.network.get_parameter("h.1.attn.c_proj.weight")
        merge.copy_(merge[:, rows].clone())
    for here, there in enumerate(order):
        ours, theirs = head_circuit(model, 1, there), head_circuit(other, 1, here)
        assert theirs.copying_score == pytest.approx(ours.copying_score)
        assert theirs.writes(5) == ours.writes(5)
        assert theirs.likes(5) == ours.likes(5)


def test_a_single_place(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_positions=1)
    circuit = head_circuit(gpt2viz.load_model(tmp_path), 0, 0)
    assert circuit.by_distance.mean.tolist() == circuit.by_distance.spread.tolist() == [0]
    assert np.isnan(circuit.place_weights.first)


def test_what_cannot_be_asked(tiny: gpt2viz.Model) -> None:
    for layer, head, said in ((3, 0, "layers 0 to 2"), (0, 4, "heads 0 to 3"), (-1, 0, "layer -1")):
        with pytest.raises(IndexError, match=said):
            head_circuit(tiny, layer, head)
    circuit = head_circuit(tiny, 1, 2)
    for token in (-1, 420):
        for asked in (circuit.writes, circuit.likes):
            with pytest.raises(IndexError, match="the vocabulary has 0 to 419"):
                asked(token)
    with pytest.raises(gpt2viz.ContextError):
        circuit.scores([1] * 25)
    assert circuit.writes(3, 1000).most == circuit.writes(3, 420).least[::-1]
    assert "layer 1, head 2, copying" in repr(circuit)
