"""Every score of a head by loops over queries and keys, from its formula in words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def mean_on(
    weights: np.ndarray, ids: list[int], expected: Callable[[int, int], bool]
) -> np.ndarray:
    """(nh,): the mean weight on all expected keys, over the queries from 1 that have any."""
    keys = {t: [j for j in range(t + 1) if expected(t, j)] for t in range(1, len(ids))}
    results = [weights[:, t, some].sum(axis=1) for t, some in keys.items() if some]
    return np.mean(results or [np.full(len(weights), np.nan)], axis=0)


def expected_scores(weights: np.ndarray, ids: list[int]) -> dict[str, np.ndarray]:
    T = len(ids)
    apart = np.array([[abs(t - j) for j in range(T)] for t in range(T)])
    rows = weights[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -np.nansum(rows * np.log2(rows), axis=2)
    return {
        "previous token": mean_on(weights, ids, lambda t, j: j == t - 1),
        "same token": mean_on(weights, ids, lambda t, j: j == t),
        "first token": mean_on(weights, ids, lambda _t, j: j == 0),
        "duplicate token": mean_on(weights, ids, lambda t, j: j < t and ids[j] == ids[t]),
        "induction": mean_on(weights, ids, lambda t, j: j > 0 and ids[j - 1] == ids[t]),
        "largest weight": rows.max(axis=(1, 2)),
        "mean distance": (rows * apart[1:]).sum(axis=2).mean(axis=1),
        "entropy": bits.mean(axis=1),
    }
