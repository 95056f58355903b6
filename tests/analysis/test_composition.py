"""The wiring of heads, compared with full (C, C) matrices, random rotations and loops."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import get_args

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.cell import HeadCell
from gpt2viz.analysis.circuits import Into
from gpt2viz.analysis.composition import Measure, composition, copying_edge, edge_share, top_edges
from gpt2viz.analysis.scores import head_scores
from tests.analysis.copying_model import copying_model
from tests.analysis.test_circuits import centred, folder, largest, linear
from tests.analysis.test_explanation import parts_of, read_by
from tests.analysis.test_reasons import shares_by_hand
from tests.bundled import bundled_model
from tests.checkpoints import write_checkpoint
from tests.oracles import Oracle, oracle

__all__ = ["folder"]

IDS = [5, 300, 17, 17, 219, 88, 400]


def centring(of: Oracle) -> np.ndarray:
    """A norm's centring as a matrix (C, C), the identity where it has none."""
    C = of.embedding.shape[1]
    return np.eye(C) - 1 / C if of.position_vectors(1) else np.eye(C)


def matrices(of: Oracle, layer: int, head: int) -> dict[str, np.ndarray]:
    """W_OV and W_QK (C, C) with everything folded and centred, from the files."""
    unit, made = np.eye(of.embedding.shape[1]), {}
    for into in "qkv":
        gain = of.qk_gain(into, layer)
        W = of.read(into, layer, linear(of, unit, layer))[of.row(into, head)]
        made[into] = W if gain is None else W * gain
    OV = made["v"] @ of.out_proj(layer)[0][head] @ centring(of)
    QK = made["q"] @ made["k"].T
    return {"writes": OV, "q": QK, "k": QK.T, "v": OV}


def subspace(matrix: np.ndarray, rank: int) -> np.ndarray:
    """An orthonormal basis of the columns' span: (C, rank)."""
    return np.linalg.svd(matrix)[0][:, :rank]


def test_every_pair_equals_full_matrices(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    result, nh, hs = composition(model), model.config.n_head, model.config.head_dim
    of = oracle(folder)
    rank = min(hs, np.linalg.matrix_rank(centring(of)))
    for into in get_args(Into):
        for values in (result.ratio[into], result.kernel[into]):
            assert values.shape == (3, nh, 3, nh)
            later = np.isfinite(values).all(axis=(1, 3))
            assert later.tolist() == np.triu(np.ones((3, 3), bool), 1).tolist()
        for pair in ((0, nh - 1, 1, 0), (1, 0, 2, nh - 1)):
            sender, receiver = matrices(of, *pair[:2]), matrices(of, *pair[2:])
            norms = np.linalg.norm(sender["writes"]) * np.linalg.norm(receiver[into])
            ratio = np.linalg.norm(sender["writes"] @ receiver[into]) / norms
            assert result.ratio[into][pair] == pytest.approx(ratio, rel=1e-9)
            written, reads = subspace(sender["writes"].T, rank), subspace(receiver[into], rank)
            cosines = np.linalg.svd(written.T @ reads, compute_uv=False)
            assert result.kernel[into][pair] == pytest.approx((cosines**2).sum(), rel=1e-9)


@pytest.mark.slow
def test_chance_level_equals_random_rotations(folder: Path) -> None:
    """The means and deviations behind z, which are formulas, against 4,000 rotations."""
    model = gpt2viz.load_model(folder)
    result, pair, of = composition(model), (0, 0, 2, 0), oracle(folder)
    draws = np.random.default_rng(0)
    writes, query = matrices(of, 0, 0)["writes"], matrices(of, 2, 0)["q"]
    n = int(np.linalg.matrix_rank(centring(of)))
    free = np.linalg.svd(centring(of))[0][:, :n]  # the space that centring leaves
    rank = min(model.config.head_dim, n)
    sized, even = writes @ free, subspace(writes.T, rank).T @ free
    reads, basis = free.T @ query, free.T @ subspace(query, rank)
    norms = (np.linalg.norm(writes) * np.linalg.norm(query)) ** 2
    drawn: list[tuple[float, float]] = []
    for _ in range(4000):
        turn, r = np.linalg.qr(draws.normal(size=(n, n)))
        turn = turn * np.sign(np.diag(r))
        ratio, kernel = np.square(sized @ turn @ reads).sum(), np.square(even @ turn @ basis).sum()
        drawn.append((float(ratio / norms), float(kernel)))
    (mean, kernel_mean), (sd, kernel_sd) = np.mean(drawn, axis=0), np.std(drawn, axis=0)
    assert mean == pytest.approx(1 / n, rel=0.03)
    assert kernel_mean == pytest.approx(rank**2 / n, rel=0.03)
    z = (result.ratio["q"][pair] ** 2 - mean) / sd
    assert result.ratio_z["q"][pair] == pytest.approx(z, abs=0.15)
    if rank == n:  # each reads the whole space, whatever the rotation
        assert np.isnan(result.kernel_z["q"][pair])
        assert kernel_sd == pytest.approx(0, abs=1e-9)
    else:
        z = (result.kernel["q"][pair] - kernel_mean) / kernel_sd
        assert result.kernel_z["q"][pair] == pytest.approx(z, abs=0.15)


def test_random_heads_are_wired_by_chance(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_embd=48, n_head=6, n_layer=4)
    result = composition(gpt2viz.load_model(tmp_path))
    mean = 8 * 8 / 47  # of 8 directions in 47, twice
    spread = (8 - mean) * np.sqrt(2 / (46 * 49))
    for into in get_args(Into):
        assert np.nanmean(result.kernel[into]) == pytest.approx(mean, rel=0.05)
        assert_allclose(result.kernel_z[into], (result.kernel[into] - mean) / spread, rtol=1e-4)
        for z in (result.kernel_z[into], result.ratio_z[into]):
            assert abs(np.nanmean(z)) < 0.3
            assert np.nanstd(z) == pytest.approx(1, abs=0.2)
    assert [top_edges(result, by)[0] for by in get_args(Measure)] == [(), ()]


def test_hand_built_copier_has_one_edge() -> None:
    model, text = copying_model(), [3, 7, 1, 3, 7]
    result, trace = composition(model), gpt2viz.trace(model, text)
    (edge,) = result.strongest()
    assert str(edge) == "0.0 → 1.0.k"
    assert edge.kernel == pytest.approx(6, abs=0.2)  # of 12 channels it reads one sign of two
    assert edge.kernel_z > 10
    assert edge.ratio_z > 10
    assert result.strongest(of=(0, 0)) == (edge,)
    assert result.strongest(of=(0, 1)) == result.strongest(into=["q", "v"]) == ()
    assert np.isnan(result.kernel["v"][0, 0, 1, 0])  # 1.0 writes nothing
    for by in get_args(Measure):
        drawn = top_edges(result, by)
        assert (drawn.edges, drawn.above, drawn.pairs) == ((edge,), 1, 2)  # others read nothing
    assert copying_edge(result, head_scores(trace)) == edge
    at = edge_share(model, trace, edge)
    assert text[at.key - 1] == text[at.query]
    assert at.share == pytest.approx(1, abs=1e-3)


def test_strongest_edges_come_first(tiny: gpt2viz.Model) -> None:
    shares: list[float] = []
    result = composition(tiny, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    z = np.concatenate([values[values > 0] for values in result.kernel_z.values()])
    edges = result.strongest(1000)
    assert [edge.kernel_z for edge in edges] == sorted(z.tolist(), reverse=True)
    for edge in edges[:5]:
        assert result.edge(edge.sender, edge.receiver, edge.into) == edge
    mine = result.strongest(1000, of=(1, 2))
    assert mine == tuple(e for e in edges if (1, 2) in (e.sender, e.receiver))
    assert repr(result).startswith(f"Composition: 48 pairs of heads; above chance most {edges[0]}")


@pytest.mark.parametrize("n_layer", [1, 2])
def test_one_layer_and_one_head(tmp_path: Path, n_layer: int) -> None:
    model = gpt2viz.load_model(write_checkpoint(tmp_path, n_layer=n_layer, n_head=1, n_embd=8))
    result, trace = composition(model), gpt2viz.trace(model, IDS)
    drawn, first = top_edges(result, "ratio"), copying_edge(result, head_scores(trace))
    assert drawn.edges == result.strongest() == ()
    assert (first is None) == np.isnan(drawn.limit) == (n_layer == 1)
    if n_layer == 1:
        assert_allclose(result.ratio["q"], np.nan)
        assert repr(result) == "Composition: 0 pairs of heads; above chance most –"


@pytest.mark.slow
@pytest.mark.parametrize("by", get_args(Measure))
def test_edges_above_chance_exceed_the_bonferroni_limit(by: Measure) -> None:
    result = composition(bundled_model())
    z = {"kernel": result.kernel_z, "ratio": result.ratio_z}[by]
    every = {
        (pair[:2], pair[2:], into): float(values[pair])
        for into, values in z.items()
        for pair in np.ndindex(values.shape)
        if np.isfinite(values[pair])
    }
    limit = NormalDist().inv_cdf(1 - 0.05 / len(every))
    above = sorted((-x, pair) for pair, x in every.items() if x > limit)
    drawn = top_edges(result, by, most=10_000)
    assert (drawn.above, drawn.pairs) == (len(above), len(every))
    assert drawn.limit == pytest.approx(limit)
    assert [(-e.z(by), tuple(e[:3])) for e in drawn.edges] == above
    few = top_edges(result, by, ["v"], 3)
    assert few.edges == tuple(e for e in drawn.edges if e.into == "v")[:3]
    assert few.above == sum(e.into == "v" for e in drawn.edges)
    assert few.limit == drawn.limit


def test_copying_edge_joins_the_best_of_both_habits(tmp_path: Path) -> None:
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


def test_edge_share_equals_loops_over_all_parts(folder: Path) -> None:
    model, of = gpt2viz.load_model(folder), oracle(folder)
    trace, result = gpt2viz.trace(model, IDS), composition(model)
    receiver = layer, head = 2, model.config.n_head - 1
    weights = trace.stage("weights", layer, head)
    others = weights * (1 - np.eye(len(IDS)))
    others[:, 0] = 0
    parts = parts_of(of, trace, layer)
    stream = np.sum(list(parts.values()), axis=0)
    every = [*parts.items(), ("constant", None)]
    for into, requested in product(get_args(Into), (None, 4)):
        query = int(others.max(axis=1).argmax()) if requested is None else requested
        key = int(others[query].argmax())
        values = {name: read_by(of, layer, head, "v", x, stream)[key] for name, x in every}
        v = np.sum(list(values.values()), axis=0)
        shares = {("v", name): x @ v / (v @ v) for name, x in values.items()}
        shares |= shares_by_hand(of, trace, HeadCell(layer, head, query, key))
        for sender in ((0, head), (1, 0)):
            carried = edge_share(model, trace, result.edge(sender, receiver, into), requested)
            assert carried[:2] == (query, key)
            assert carried.weight == pytest.approx(weights[query, key])
            side = {"q": "query", "k": "key"}.get(into, into)
            share = shares[side, f"head {sender[0]}.{sender[1]}"]
            assert carried.share == pytest.approx(share, rel=1e-4, abs=1e-5)


def test_edge_share_needs_an_unedited_run(tiny: gpt2viz.Model) -> None:
    edge = composition(tiny).edge((0, 1), (1, 2), "k")
    with pytest.raises(ValueError, match="edited"):
        edge_share(tiny, gpt2viz.trace(tiny, IDS, edits="off:0.1"), edge)
    with pytest.raises(IndexError, match="no token 9"):
        edge_share(tiny, gpt2viz.trace(tiny, IDS), edge, 9)
    alone = edge_share(tiny, gpt2viz.trace(tiny, IDS[:1]), edge)
    assert alone[:3] == (0, 0, 1)
    assert np.isnan(alone.share)  # with one key nothing differs


@pytest.mark.slow
def test_virtual_head_equals_full_circuits(folder: Path) -> None:
    model, of, token = gpt2viz.load_model(folder), oracle(folder), 219
    sender, receiver, E = (0, model.config.n_head - 1), (2, 0), of.embedding
    result = gpt2viz.virtual_head(model, sender, receiver)
    OV = matrices(of, *sender)["v"] @ matrices(of, *receiver)["v"]
    full = centred(linear(of, E @ OV, None) @ of.unembedding.T, 1)  # (n_vocab, n_vocab)
    every = largest(full, len(result.ov_eigenvalues))
    mine = np.sort_complex(result.ov_eigenvalues.round(6))
    assert_allclose(mine, every, atol=1e-5 * np.abs(every).max())
    score = np.trace(full) / np.abs(every).sum()
    assert result.copying_score == pytest.approx(score, abs=1e-5)
    row = full[token] / of.scale(E)[token]
    writes = result.writes(token, 400)
    for ranked, order in ((writes.most, np.argsort(-row)), (writes.least, np.argsort(row))):
        assert [n for n, _ in ranked[:9]] == order[:9].tolist()
        assert_allclose([x for _, x in ranked], row[[n for n, _ in ranked]], rtol=1e-6, atol=1e-6)
    name = f"VirtualHead: 0.{sender[1]}, then 2.0, copying {score:+.2f}"
    assert repr(result) == name


def test_virtual_heads_pattern_is_the_product_of_weights(folder: Path) -> None:
    model, weights = gpt2viz.load_model(folder), oracle(folder).run(IDS, True)["weights"]
    head = model.config.n_head - 1
    result = gpt2viz.virtual_head(model, (0, head), (2, 0)).pattern(gpt2viz.trace(model, IDS))
    assert_allclose(result, weights[2][0] @ weights[0][head], atol=1e-5)


def test_invalid_virtual_heads_are_refused() -> None:
    model = copying_model()
    with pytest.raises(IndexError, match="no head 2"):
        gpt2viz.virtual_head(model, (0, 2), (1, 0))
    for receiver in ((1, 0), (0, 1)):
        with pytest.raises(ValueError, match=r"reads before head 1\.1 has written"):
            gpt2viz.virtual_head(model, (1, 1), receiver)
