"""Edges above chance and what they carry on a text, two heads as one: against loops over files."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import get_args

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.circuits import Into
from gpt2viz.analysis.composition import Measure, carried, composition, copying_edge, wired
from gpt2viz.analysis.scores import head_scores
from tests.analysis.copying_model import copying_model
from tests.bundled import bundled_model
from tests.checkpoints import SHAPES, write_checkpoint
from tests.numpy_gpt2 import by_head, layer_norm, read, reference

IDS = [5, 300, 17, 17, 219, 88, 400]


@pytest.fixture(scope="module", params=SHAPES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("wiring"), **SHAPES[request.param])


def centred(x: np.ndarray, axis: int) -> np.ndarray:
    return x - x.mean(axis=axis, keepdims=True)


def ov(folder: Path, layer: int, head: int) -> np.ndarray:
    """What a head makes of a stream that is centred: gain, W_V and W_O in turn, (C, C)."""
    config, w = read(folder)
    C = config["n_embd"]
    cut = slice(head * C // config["n_head"], (head + 1) * C // config["n_head"])
    V = np.split(w[f"h.{layer}.attn.c_attn.weight"], 3, axis=1)[2][:, cut]
    gain = np.diag(w[f"h.{layer}.ln_1.weight"])
    return gain @ V @ w[f"h.{layer}.attn.c_proj.weight"][cut]


@pytest.mark.slow
def test_two_heads_as_one_are_the_whole_circuits_of_both(folder: Path) -> None:
    model, (_, w) = gpt2viz.load_model(folder), read(folder)
    config, token = model.config, 219
    E, U = w["wte.weight"], w.get("lm_head.weight", w["wte.weight"])
    sender, receiver = (0, config.n_head - 1), (2, 0)
    result = gpt2viz.virtual_head(model, sender, receiver)

    def both(x: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        wrote = centred(centred(x, 1) @ one, 1) @ other
        return centred(centred(wrote, 1) * w["ln_f.weight"] @ U.T, 1)

    circuits = ov(folder, *sender), ov(folder, *receiver)
    full = both(E, *circuits)  # (n_vocab, n_vocab)
    eigenvalues = np.linalg.eigvals(full)
    largest = eigenvalues[np.argsort(-np.abs(eigenvalues))[: len(result.ov_eigenvalues)]]
    score = np.trace(full) / np.abs(largest).sum()
    assert result.copying_score == pytest.approx(score, abs=1e-6)
    one = np.ones(len(E[0]))
    eps = model.network.ln_f.eps
    normed = layer_norm(E[token : token + 1], one, 0 * one, eps)
    row = both(normed, *circuits)[0]
    writes = result.writes(token, 400)
    for ranked, order in ((writes.most, np.argsort(-row)), (writes.least, np.argsort(row))):
        assert [n for n, _ in ranked[:9]] == order[:9].tolist()
        assert_allclose([x for _, x in ranked], row[[n for n, _ in ranked]], atol=1e-6)
    assert repr(result) == (
        f"VirtualHead: {sender[0]}.{sender[1]}, then {receiver[0]}.{receiver[1]}, copying "
        f"{score:+.2f}"
    )


def test_two_heads_as_one_move_what_either_moves_in_turn(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    weights = reference(folder, IDS, True)["weights"]
    result = gpt2viz.virtual_head(model, (0, 1), (2, 0)).pattern(gpt2viz.trace(model, IDS))
    first, second, T = weights[0][1], weights[2][0], len(IDS)
    for query, key in product(range(T), range(T)):
        through = sum(second[query, n] * first[n, key] for n in range(T))
        assert result[query, key] == pytest.approx(through, abs=1e-5)
    assert_allclose(result.sum(axis=1), 1, atol=1e-5)


def test_heads_that_cannot_be_one() -> None:
    model = copying_model()
    with pytest.raises(IndexError, match="no head 2"):
        gpt2viz.virtual_head(model, (0, 2), (1, 0))
    for receiver in ((1, 0), (0, 1)):
        with pytest.raises(ValueError, match=r"reads before head 1\.1 has written"):
            gpt2viz.virtual_head(model, (1, 1), receiver)


def parts_read(folder: Path, layer: int, head: int, which: int) -> dict[str, np.ndarray]:
    """A head's queries, keys or values by who wrote what they read: (T, hs) each, no biases."""
    (config, w), run = read(folder), reference(folder, IDS, True)
    nh, T = config["n_head"], len(IDS)
    parts = {"token": w["wte.weight"][IDS], "position": w["wpe.weight"][:T]}
    for n in range(layer):
        W_O = w[f"h.{n}.attn.c_proj.weight"]
        for h, z in enumerate(run["head_output"][n]):
            parts[f"head {n}.{h}"] = z @ W_O[h * z.shape[1] : (h + 1) * z.shape[1]]
        parts[f"bias {n}"] = np.tile(w[f"h.{n}.attn.c_proj.bias"], (T, 1))
        parts[f"mlp {n}"] = run["mlp_output"][n]
    stream = np.sum(list(parts.values()), axis=0)
    sigma = np.sqrt(stream.var(axis=1, keepdims=True) + config["layer_norm_epsilon"])
    W = np.split(w[f"h.{layer}.attn.c_attn.weight"], 3, axis=1)[which]
    W = by_head(w[f"h.{layer}.ln_1.weight"][:, None] * W, nh)[head]
    return {name: centred(x, 1) / sigma @ W for name, x in parts.items()}


def shares_by_hand(
    folder: Path, receiver: tuple[int, int], into: Into, cell: tuple[int, int]
) -> dict[str, float]:
    """Every part's share at a cell, by loops over all pairs of parts."""
    (query, key), (config, w), (layer, head) = cell, read(folder), receiver
    nh = config["n_head"]
    bias = w[f"h.{layer}.ln_1.bias"] @ w[f"h.{layer}.attn.c_attn.weight"]
    b_Q, b_K, b_V = (
        by_head(b[None], nh)[head][0] for b in np.split(bias + w[f"h.{layer}.attn.c_attn.bias"], 3)
    )
    if into == "v":
        values = {n: x[key] for n, x in parts_read(folder, layer, head, 2).items()}
        v = sum(values.values()) + b_V
        return {name: float(x @ v / (v @ v)) for name, x in values.items()}
    q = {n: x[query] for n, x in parts_read(folder, layer, head, 0).items()} | {"constant": b_Q}
    k = {n: x[key] - x[: query + 1].mean(0) for n, x in parts_read(folder, layer, head, 1).items()}
    k["constant"] = 0 * b_K
    pairs = {(a, b): float(q[a] @ k[b]) for a, b in product(q, k)}
    sign = 1 if sum(pairs.values()) > 0 else -1
    same = {pair: sign * x for pair, x in pairs.items() if sign * x > 0}
    at = 0 if into == "q" else 1
    return {
        name: sum(x for pair, x in same.items() if pair[at] == name) / sum(same.values())
        for name in q
    }


def test_what_an_edge_carries_is_that_of_loops_over_all_parts(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    trace, result = gpt2viz.trace(model, IDS), composition(model)
    receiver = 2, 1
    weights = reference(folder, IDS, True)["weights"][2][1]
    looks = weights.copy()
    looks[:, 0] = looks[np.arange(len(IDS)), np.arange(len(IDS))] = 0
    for into, requested in product(get_args(Into), (None, 4)):
        query = int(looks.max(axis=1).argmax()) if requested is None else requested
        key = int(looks[query].argmax())
        shares = shares_by_hand(folder, receiver, into, (query, key))
        for sender in ((0, 2), (1, 0)):
            is_ = carried(model, trace, result.edge(sender, receiver, into), requested)
            assert (is_.query, is_.key) == (query, key)
            assert is_.weight == pytest.approx(weights[query, key], abs=1e-5)
            share = shares[f"head {sender[0]}.{sender[1]}"]
            assert is_.share == pytest.approx(share, abs=1e-5)


def test_what_is_carried_needs_a_run_of_the_model_as_it_is(tiny: gpt2viz.Model) -> None:
    edge = composition(tiny).edge((0, 1), (1, 2), "k")
    edited = gpt2viz.trace(tiny, IDS, edits=gpt2viz.parse_edits("off:0.1"))
    with pytest.raises(ValueError, match="edited"):
        carried(tiny, edited, edge)
    with pytest.raises(IndexError, match="no token 9"):
        carried(tiny, gpt2viz.trace(tiny, IDS), edge, 9)
    alone = carried(tiny, gpt2viz.trace(tiny, IDS[:1]), edge)
    assert alone[:3] == (0, 0, 1)
    assert np.isnan(alone.share)  # a row of one key has nothing that sets it apart


@pytest.mark.slow
@pytest.mark.parametrize("by", get_args(Measure))
def test_edges_above_chance_are_all_that_exceed_bonferronis_z(by: Measure) -> None:
    result = composition(bundled_model())
    z = {"kernel": result.kernel_z, "ratio": result.ratio_z}[by]
    heads = list(product(range(4), range(result.ratio["q"].shape[1])))
    every = {
        (a, b, way): float(z[way][(*a, *b)])
        for a, b, way in product(heads, heads, get_args(Into))
        if np.isfinite(z[way][(*a, *b)])
    }
    limit = NormalDist().inv_cdf(1 - 0.05 / len(every))
    above = sorted((-x, pair) for pair, x in every.items() if x > limit)
    drawn = wired(result, by, most=10_000)
    assert (drawn.above, drawn.pairs) == (len(above), len(every))
    assert drawn.limit == pytest.approx(limit)
    assert [(e.sender, e.receiver, e.into) for e in drawn.edges] == [pair for _, pair in above]
    assert [e.z(by) for e in drawn.edges] == [-x for x, _ in above]
    few = wired(result, by, ["v"], 3)
    assert few.edges == tuple(e for e in drawn.edges if e.into == "v")[:3]
    assert few.above == sum(e.into == "v" for e in drawn.edges)
    assert few.limit == drawn.limit


def test_chance_alone_wires_no_heads(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_embd=48, n_head=6, n_layer=4)
    result = composition(gpt2viz.load_model(tmp_path))
    for by in get_args(Measure):
        assert wired(result, by)[0] == ()


def test_the_hand_built_copier_is_wired_once() -> None:
    model = copying_model()
    result = composition(model)
    for by in get_args(Measure):
        drawn = wired(result, by)
        assert [str(edge) for edge in drawn.edges] == ["0.0 → 1.0.k"]
        assert (drawn.above, drawn.pairs) == (1, 2)  # all others write or read nothing
    text = [3, 7, 1, 3, 7]
    trace = gpt2viz.trace(model, text)
    edge = copying_edge(result, head_scores(trace))
    assert edge == drawn.edges[0]
    at = carried(model, trace, edge)
    assert text[at.key - 1] == text[at.query]
    assert at.share == pytest.approx(1, abs=1e-3)


def test_the_copying_edge_is_between_the_best_of_both_habits(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_layer=4)
    result = composition(gpt2viz.load_model(tmp_path))
    random = np.random.default_rng(1)
    for _ in range(20):
        habits = {name: random.random((4, 4)) for name in ("induction", "previous token")}
        later = [(n, h) for n, h in product(range(4), range(4)) if n > 0]
        receiver = max(later, key=habits["induction"].__getitem__)
        lower = [(n, h) for n, h in product(range(4), range(4)) if n < receiver[0]]
        sender = max(lower, key=habits["previous token"].__getitem__)
        assert copying_edge(result, habits) == result.edge(sender, receiver, "k")
    nothing = {name: np.full((4, 4), np.nan) for name in ("induction", "previous token")}
    assert copying_edge(result, nothing) is None


@pytest.mark.parametrize("n_layer", [1, 2])
def test_one_layer_and_one_head(tmp_path: Path, n_layer: int) -> None:
    model = gpt2viz.load_model(write_checkpoint(tmp_path, n_layer=n_layer, n_head=1, n_embd=8))
    result, trace = composition(model), gpt2viz.trace(model, IDS)
    drawn, first = wired(result, "ratio"), copying_edge(result, head_scores(trace))
    assert drawn.edges == ()
    assert (first is None) == np.isnan(drawn.limit) == (n_layer == 1)
