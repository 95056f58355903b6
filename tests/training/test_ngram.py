"""Counts against numbers worked by hand, and probabilities that are a distribution."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpt2viz.training.ngram import NGrams


def test_a_case_worked_by_hand() -> None:
    counts = NGrams(np.array([0, 1, 0, 0, 1]), vocab_size=3, order=2)
    one, two = counts.probabilities(np.array([[0, 0], [0, 1], [0, 2], [2, 1]]))
    # c(0) = 3, c(1) = 2 of 5 tokens, 2 kinds: (3 + 2/3) / 7, (2 + 2/3) / 7, (2/3) / 7.
    assert_allclose(one, np.array([[11, 11], [11, 8], [11, 2], [2, 8]]) / 21)
    # After 0 come 1, 0, 1: 3 times, 2 kinds: (1 + 2 · 11/21) / 5, (2 + 2 · 8/21) / 5, …
    assert_allclose(two[:3, 1], np.array([43, 58, 4]) / 105)
    assert_allclose(two[:, 0], one[:, 0])  # nothing stands before a row's first token
    assert two[3, 1] == one[3, 1]  # nothing ever followed 2


def test_probabilities_sum_to_1_after_any_context() -> None:
    rng = np.random.default_rng(0)
    counts = NGrams(rng.integers(0, 5, 300) * rng.integers(0, 2, 300), vocab_size=7, order=5)
    for context in rng.integers(0, 7, (20, 4)):
        rows = np.concatenate([np.tile(context, (7, 1)), np.arange(7)[:, None]], axis=1)
        assert_allclose(counts.probabilities(rows)[:, :, -1].sum(axis=1), 1)


def test_counts_agree_with_counting_one_by_one() -> None:
    ids = np.random.default_rng(1).integers(0, 4, 200)
    rows = np.random.default_rng(2).integers(0, 4, (6, 9))
    found = NGrams(ids, vocab_size=4, order=4).probabilities(rows)

    def slow(context: list[int], token: int) -> float:
        lower = slow(context[1:], token) if context else 1 / 4
        size = len(context)
        after = [ids[i + size] for i in range(len(ids) - size) if [*ids[i : i + size]] == context]
        kinds = len(set(after))
        return (after.count(token) + kinds * lower) / (len(after) + kinds) if after else lower

    for n in range(1, 5):
        for row, t in np.ndindex(rows.shape):
            context = rows[row, max(0, t - n + 1) : t].tolist()
            assert found[n - 1, row, t] == pytest.approx(slow(context, rows[row, t]))


def test_longer_contexts_pay_where_the_text_goes_round() -> None:
    text = np.tile([0, 1, 0, 2, 0, 3], 200)
    p = NGrams(text, vocab_size=4, order=3).probabilities(text[None, :60])[:, 0, 2:]
    bits = -np.log2(p).mean(axis=1)
    assert bits[0] > bits[1] > bits[2]
    assert bits[2] < 0.1


def test_texts_that_cannot_be_counted() -> None:
    with pytest.raises(ValueError, match="2 tokens are too few to count n-grams of 3"):
        NGrams(np.array([0, 1]), 2, order=3)
    with pytest.raises(ValueError, match=r"outside 0 … 1"):
        NGrams(np.array([0, 2, 1]), 2, order=2)
