"""Probabilities of n-grams equal their definitions, counted one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gpt2viz.training.ngram import NGrams


def test_witten_bell_equals_its_definition() -> None:
    ids = np.random.default_rng(1).integers(0, 4, 200)
    rows = np.random.default_rng(2).integers(0, 5, (6, 9))  # one of them was never counted
    result = NGrams(ids, vocab_size=5, order=4).witten_bell(rows)

    def slow(context: list[int], token: int) -> float:
        lower = slow(context[1:], token) if context else 1 / 5
        size = len(context)
        after = [ids[i + size] for i in range(len(ids) - size) if [*ids[i : i + size]] == context]
        kinds = len(set(after))
        return (after.count(token) + kinds * lower) / (len(after) + kinds) if after else lower

    for n in range(1, 5):
        for row, t in np.ndindex(rows.shape):
            context = rows[row, max(0, t - n + 1) : t].tolist()
            assert result[n - 1, row, t] == pytest.approx(slow(context, int(rows[row, t])))


VOCABULARY = 200


def slow_kneser_ney(ids: list[int], order: int, context: list[int], token: int) -> float:
    """P by its definition: counts of n-grams of ``order``, and of the contexts of shorter ones."""
    lower = 1 / VOCABULARY
    if context:
        lower = slow_kneser_ney(ids, order, context[1:], token)
    n = len(context) + 1
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    if n < order:
        longer = {tuple(ids[i : i + n + 1]) for i in range(len(ids) - n)}
        grams = [gram[1:] for gram in longer]
    counts = Counter(grams)
    n1, n2, n3, n4 = (sum(c == k for c in counts.values()) for k in (1, 2, 3, 4))
    y = n1 / (n1 + 2 * n2)
    D = [0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
    assert min(D) >= 0
    after = {gram[-1]: c for gram, c in counts.items() if list(gram[:-1]) == context}
    total, mine = sum(after.values()), after.get(token, 0)
    if not total:
        return lower
    left = sum(D[min(c, 3)] for c in after.values())
    return (mine - D[min(mine, 3)] + left * lower) / total


def test_kneser_ney_equals_its_definition() -> None:
    rng = np.random.default_rng(11)
    ids = (VOCABULARY * rng.random(1500) ** 4).astype(np.int64)
    rows = np.concatenate([ids[100:120], (VOCABULARY * rng.random(20) ** 4).astype(np.int64)])
    result = NGrams(ids, VOCABULARY, order=3).kneser_ney(rows[None])[:, 0]
    for n in range(1, 4):
        for t in range(n - 1, len(rows)):
            context = rows[t - n + 1 : t].tolist()
            expected = slow_kneser_ney(ids.tolist(), n, context, int(rows[t]))
            assert result[n - 1, t] == pytest.approx(expected)


def test_invalid_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="2 tokens are too few to count n-grams of 3"):
        NGrams(np.array([0, 1]), 2, order=3)
    with pytest.raises(ValueError, match=r"outside 0 … 1"):
        NGrams(np.array([0, 2, 1]), 2, order=2)
