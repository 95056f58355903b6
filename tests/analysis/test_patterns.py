"""Drawn patterns: every kind by hand, and the similarity by hand and against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpt2viz.analysis.patterns import (
    Cell,
    Kind,
    as_weights,
    draw,
    likeness,
    parse_cells,
    similarity,
)
from tests.analysis.head_detector import random_head


def rows(pairs: np.ndarray) -> list[str]:
    return ["".join(".#"[int(expected)] for expected in row) for row in pairs]


def test_every_kind(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Kind, int, list[str]]] = [
        ("back", 0, ["#....", ".#...", "..#..", "...#.", "....#"]),
        ("back", 2, [".....", ".....", "#....", ".#...", "..#.."]),
        ("column", 0, ["#....", "#....", "#....", "#....", "#...."]),
        ("column", 3, [".....", ".....", ".....", "...#.", "...#."]),
        ("block", 2, ["#....", "##...", "..#..", "..##.", "....#"]),
        ("stripes", 2, [".....", ".....", "#....", ".#...", "#.#.."]),
        ("empty", 1, ["....."] * 5),
    ]
    for kind, n, expected in cases:
        with subtests.test(kind=kind, n=n):
            assert rows(draw(kind, 5, n, (), causal=True)) == expected


def test_without_the_mask_patterns_include_later_keys() -> None:
    assert rows(draw("block", 3, 2, (), causal=False)) == ["##.", "##.", "..#"]
    assert rows(draw("column", 3, 2, (), causal=False)) == ["..#", "..#", "..#"]


def test_cells_are_toggled() -> None:
    cells = parse_cells("2:1,2:0,1:2,9:0")
    assert cells == ((2, 1), (2, 0), (1, 2), (9, 0))
    assert rows(draw("column", 3, 0, cells, causal=True)) == ["#..", "#..", ".#."]
    assert rows(draw("empty", 3, 0, cells, causal=False)) == ["...", "..#", "##."]
    assert ",".join(map(str, cells)) == "2:1,2:0,1:2,9:0"
    assert parse_cells("") == ()


def test_invalid_cells_are_refused(subtests: pytest.Subtests) -> None:
    for wrong in ("3", "3:", "a:b", "1:2:3", "-1:2", "1:2,", "²:1"):
        with subtests.test(wrong=wrong), pytest.raises(ValueError):
            parse_cells(wrong)


def test_similarity_by_hand() -> None:
    expected = draw("stripes", 5, 2, (), causal=True)
    assert_allclose(as_weights(expected)[4], [0.5, 0, 0.5, 0, 0])
    same = as_weights(expected)
    other = as_weights(draw("back", 5, 1, (), causal=True))
    assert_allclose(similarity(np.stack([same, other]), expected), [1, 0], atol=1e-12)
    pattern = draw("empty", 3, 0, [Cell(2, 0)], causal=True)
    weights = np.array([[1, 0, 0], [0, 1, 0], [0.6, 0.8, 0]], np.float32)
    assert similarity(weights, pattern) == pytest.approx(0.6)  # row 2 only


def test_empty_pattern_has_no_similarity() -> None:
    weights = np.full((2, 3, 3), 1 / 3, np.float32)
    nothing = draw("empty", 3, 0, (), causal=True)
    assert_array_equal(similarity(weights, nothing), [np.nan, np.nan])
    first_row = draw("empty", 3, 0, [Cell(0, 0)], causal=True)
    assert_array_equal(similarity(weights, first_row), [np.nan, np.nan])


@pytest.mark.parametrize("seed", range(4))
def test_similarity_against_a_loop(seed: int) -> None:
    _, weights = random_head(seed, 9, 4)
    expected = np.tril(np.random.default_rng(seed).random((9, 9)) < 0.25)
    ours, theirs = [], []
    for t in range(1, 9):
        keys = [j for j in range(9) if expected[t, j]]
        if keys:
            ours += [1 / len(keys) if j in keys else 0 for j in range(t + 1)]
            theirs += [float(weights[t, j]) for j in range(t + 1)]
    cosine = np.dot(ours, theirs) / np.linalg.norm(ours) / np.linalg.norm(theirs)
    assert similarity(weights, expected) == pytest.approx(cosine)


def test_likeness_to_a_head() -> None:
    heads = np.stack([random_head(seed, 9, 4)[1] for seed in range(4)])
    result = likeness(heads, heads[2])
    assert result[2] == pytest.approx(1)
    for other, shown in zip(heads, result, strict=True):
        x, y = (head[1:].astype(float).ravel() for head in (other, heads[2]))
        assert shown == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    assert np.isnan(likeness(np.ones((2, 1, 1), np.float32), np.ones((1, 1), np.float32))).all()
