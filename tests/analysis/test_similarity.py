"""The similarity of every two heads, and their groups, compared with loops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.analysis.patterns import likeness, similarities
from gpt2viz.pictures.find import (
    MOST,
    cells_of,
    group_table,
    groups,
    leaf_order,
    similarity_map,
    tree,
)
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.plotly.figure import render

IDS = [5, 300, 17, 17, 219, 5, 300, 41, 88]


def test_long_text_is_read_in_blocks_of_queries(
    tiny: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal to one block, which ``test_edited_runs`` compares with NumPy, within a memory limit."""
    requests, own = [], gpt2viz.Trace.weights_of_queries
    for explicit in (True, False):
        trace = gpt2viz.trace(tiny, IDS, explicit=explicit, edits="window:3,forbid:4:2")
        whole = similarities(trace)
        with monkeypatch.context() as patched:
            patched.setattr(
                gpt2viz.Trace,
                "weights_of_queries",
                lambda self, layer, queries: requests.append(queries) or own(self, layer, queries),
            )
            patched.setattr("gpt2viz.analysis.patterns.BLOCK_BYTES", 3 * 4 * 12 * len(IDS))
            assert_allclose(similarities(trace), whole, atol=1e-5)
        of_one = likeness(trace.stage("weights", 2)[0], trace.stage("weights", 1)[0, 1])
        assert_allclose(whole[5].reshape(3, 4)[2], of_one, atol=1e-5)
    assert {(q.start, q.stop) for q in requests} == {(1, 4), (4, 7), (7, 9)}


def test_one_token_has_no_similarities(tiny: gpt2viz.Model) -> None:
    assert np.isnan(similarities(gpt2viz.trace(tiny, [5]))).all()


def random_similarities(seed: int, n: int) -> np.ndarray:
    rows = np.random.default_rng(seed).random((n, 6)) ** 3
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def grouped_by_loops(values: np.ndarray, at_least: float) -> set[frozenset[int]]:
    """Average linkage by its definition: join the two most similar groups down to a limit."""
    results = [frozenset([n]) for n in range(len(values))]

    def alike(pair: tuple[frozenset[int], frozenset[int]]) -> float:
        return float(np.mean([values[a, b] for a in pair[0] for b in pair[1]]))

    while len(results) > 1:
        best = max(combinations(results, 2), key=alike)
        if alike(best) < at_least:
            break
        results = [g for g in results if g not in best] + [best[0] | best[1]]
    return {group for group in results if len(group) > 1}


def test_groups_equal_loops(subtests: pytest.Subtests) -> None:
    for seed in range(4):
        for at_least in (0.95, 0.8, 0.5):
            with subtests.test(seed=seed, at_least=at_least):
                values = random_similarities(seed, 17)
                joined = tree(values)
                result = groups(joined, at_least)
                assert {frozenset(group) for group in result} == grouped_by_loops(values, at_least)
                order = leaf_order(joined)
                assert sorted(order) == list(range(17))
                for group in result:  # side by side in the map
                    positions = sorted(order.index(head) for head in group)
                    assert positions == list(range(positions[0], positions[0] + len(group)))
                table = group_table(values, result, [str(n) for n in range(17)])
                for row in table.to_dict("records"):
                    group = [int(n) for n in row["layer.head"].split()]
                    assert row["heads"] == len(group)
                    pairs = [values[a, b] for a in group for b in group]
                    assert row["least alike"] == pytest.approx(min(pairs))


def test_identical_heads_are_grouped() -> None:
    values = np.eye(6)
    values[0, 3] = values[3, 0] = values[1, 5] = values[5, 1] = 1
    joined = tree(values)
    assert {frozenset(g) for g in groups(joined, 0.9)} == {frozenset([0, 3]), frozenset([1, 5])}


def test_a_model_of_one_head() -> None:
    joined = tree(np.ones((1, 1)))
    assert (leaf_order(joined), groups(joined, 0.9)) == ([0], [])


@pytest.mark.parametrize("n", [12, MOST + 40])
def test_similarity_map(n: int) -> None:
    values = random_similarities(7, n)
    joined = tree(values)
    order, result = leaf_order(joined), groups(joined, 0.9)
    names = [f"h{k}" for k in range(n)]
    picture = similarity_map("what", values, order, result, names)
    (drawn,) = render(picture, LIGHT).data
    starts = cells_of(order)
    assert list(drawn.x) == list(drawn.y) == [names[order[k]] for k in starts]
    assert drawn.z.shape == (min(n, MOST),) * 2
    for down, across in ((0, 0), (3, 7), (len(starts) - 1, 2)):
        stops = [*starts[1:], n]
        block = [
            values[order[a], order[b]]
            for a in range(starts[down], stops[down])
            for b in range(starts[across], stops[across])
        ]
        assert drawn.z[down, across] == pytest.approx(max(block), abs=1e-6)
    assert len(picture.frames) == len(result)
    if n == 12:
        for (rows, columns), group in zip(picture.frames, result, strict=True):
            assert rows == columns == (order.index(group[0]), order.index(group[-1]))
    assert_array_equal(np.sort(order), np.arange(n))
