"""How heads are wired, against whole (C, C) matrices and against rotations that are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz.analysis.circuits import Into
from gpt2viz.analysis.composition import composition
from tests.analysis.copying_model import copying_model
from tests.checkpoints import write_checkpoint
from tests.oracles import FAMILIES, Oracle, oracle, written

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "odd sizes": {"n_embd": 15, "n_head": 3},
    "one head as wide as the stream": {"n_head": 1, "n_embd": 8},
}
LLAMAS = [family for family in FAMILIES if family != "gpt2"]


@pytest.fixture(scope="module", params=[*SHAPES, *LLAMAS])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wired")
    if request.param in SHAPES:
        return write_checkpoint(folder, **SHAPES[request.param])
    return written(folder, request.param)


def centring(of: Oracle) -> np.ndarray:
    """What a norm leaves of every channel: (C, C)."""
    C = of.embedding.shape[1]
    return np.eye(C) - 1 / C if of.position_vectors(1) else np.eye(C)


def matrices(of: Oracle, layer: int, head: int) -> dict[str, np.ndarray]:
    """W_OV and W_QK (C, C) with everything folded and centred, from the files."""
    unit, made = np.eye(of.embedding.shape[1]), {}
    for into in "qkv":
        gain = of.own_gain(into, layer)
        W = of.read(into, layer, of.held(unit, unit, layer) * of.scale(unit))[of.row(into, head)]
        made[into] = W if gain is None else W * gain
    OV = made["v"] @ of.merging(layer)[0][head] @ centring(of)
    QK = made["q"] @ made["k"].T
    return {"writes": OV, "q": QK, "k": QK.T, "v": OV}


def subspace(matrix: np.ndarray, rank: int) -> np.ndarray:
    """An orthonormal basis of what the columns span: (C, rank)."""
    return np.linalg.svd(matrix)[0][:, :rank]


def test_every_pair_is_that_of_the_whole_matrices(folder: Path) -> None:
    model = gpt2viz.load_model(folder)
    result, nh, hs = composition(model), model.config.n_head, model.config.head_dim
    of = oracle(folder)
    rank = min(hs, np.linalg.matrix_rank(centring(of)))
    for way in get_args(Into):
        for values in (result.ratio[way], result.kernel[way]):
            assert values.shape == (3, nh, 3, nh)
            later = np.isfinite(values).all(axis=(1, 3))
            assert later.tolist() == np.triu(np.ones((3, 3), bool), 1).tolist()
        for place in ((0, nh - 1, 1, 0), (1, 0, 2, nh - 1)):
            one, other = matrices(of, *place[:2]), matrices(of, *place[2:])
            norms = np.linalg.norm(one["writes"]) * np.linalg.norm(other[way])
            ratio = np.linalg.norm(one["writes"] @ other[way]) / norms
            assert result.ratio[way][place] == pytest.approx(ratio, rel=1e-9)
            written, reads = subspace(one["writes"].T, rank), subspace(other[way], rank)
            cosines = np.linalg.svd(written.T @ reads, compute_uv=False)
            assert result.kernel[way][place] == pytest.approx((cosines**2).sum(), rel=1e-9)
        assert np.nanmax(result.kernel[way]) <= hs + 1e-9
        assert np.nanmin(result.kernel[way]) >= 0


@pytest.mark.slow
def test_chance_is_what_random_rotations_give(folder: Path) -> None:
    """The means and deviations behind z, which are formulas, against 4,000 rotations."""
    model = gpt2viz.load_model(folder)
    result, place, of = composition(model), (0, 0, 2, 0), oracle(folder)
    draws = np.random.default_rng(0)
    one, other = matrices(of, 0, 0)["writes"], matrices(of, 2, 0)["q"]
    n = int(np.linalg.matrix_rank(centring(of)))
    free = np.linalg.svd(centring(of))[0][:, :n]  # what centring leaves
    rank = min(model.config.head_dim, n)
    sized, even = one @ free, subspace(one.T, rank).T @ free
    reads, basis = free.T @ other, free.T @ subspace(other, rank)
    norms = (np.linalg.norm(one) * np.linalg.norm(other)) ** 2
    drawn: list[tuple[float, float]] = []
    for _ in range(4000):
        turn, r = np.linalg.qr(draws.normal(size=(n, n)))
        turn = turn * np.sign(np.diag(r))
        drawn.append(
            (
                float((np.square(sized @ turn @ reads)).sum() / norms),
                float((np.square(even @ turn @ basis)).sum()),
            )
        )
    (mean, kernel_mean), (sd, kernel_sd) = np.mean(drawn, axis=0), np.std(drawn, axis=0)
    assert mean == pytest.approx(1 / n, rel=0.03)
    assert kernel_mean == pytest.approx(rank**2 / n, rel=0.03)
    z = (result.ratio["q"][place] ** 2 - mean) / sd
    assert result.ratio_z["q"][place] == pytest.approx(z, abs=0.15)
    if rank == n:  # each reads all that there is: no rotation changes that
        assert np.isnan(result.kernel_z["q"][place])
        assert kernel_sd == pytest.approx(0, abs=1e-9)
    else:
        z = (result.kernel["q"][place] - kernel_mean) / kernel_sd
        assert result.kernel_z["q"][place] == pytest.approx(z, abs=0.15)


def test_random_heads_are_wired_by_chance(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_embd=48, n_head=6, n_layer=4)
    result = composition(gpt2viz.load_model(tmp_path))
    for way in get_args(Into):
        assert np.nanmean(result.kernel[way]) == pytest.approx(8 * 8 / 47, rel=0.05)
        for z in (result.kernel_z[way], result.ratio_z[way]):
            assert abs(np.nanmean(z)) < 0.3
            assert np.nanstd(z) == pytest.approx(1, abs=0.2)


def test_the_hand_built_copier_has_one_edge() -> None:
    result = composition(copying_model())
    (edge,) = result.strongest()
    assert str(edge) == "0.0 → 1.0.k"
    assert edge.kernel == pytest.approx(6, abs=0.2)  # of 12 channels it reads one sign of two
    assert edge.kernel_z > 10
    assert edge.ratio_z > 10
    assert result.strongest(of=(0, 0)) == (edge,)
    assert result.strongest(of=(0, 1)) == result.strongest(into=["q", "v"]) == ()
    assert np.isnan(result.kernel["v"][0, 0, 1, 0])  # 1.0 writes nothing


def test_the_strongest_come_first(tiny: gpt2viz.Model) -> None:
    shares: list[float] = []
    result = composition(tiny, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    z = np.concatenate([one[one > 0] for one in result.kernel_z.values()])
    edges = result.strongest(1000)
    assert [edge.kernel_z for edge in edges] == sorted(z.tolist(), reverse=True)
    for edge in edges[:5]:
        assert result.edge(edge.sender, edge.receiver, edge.into) == edge
    mine = result.strongest(1000, of=(1, 2))
    assert mine == tuple(e for e in edges if (1, 2) in (e.sender, e.receiver))
    assert repr(result).startswith(f"Composition: 48 pairs of heads; above chance most {edges[0]}")


def test_one_layer_has_no_pairs(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_layer=1)
    result = composition(gpt2viz.load_model(tmp_path))
    assert result.strongest() == ()
    assert_allclose(result.ratio["q"], np.nan)
    assert repr(result) == "Composition: 0 pairs of heads; above chance most –"
