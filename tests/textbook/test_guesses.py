"""Guesses of a row of weights: right ones, typical mistakes, and invalid ones."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from gpt2viz.textbook.guesses import CLOSE, ROWS, Row, fits, judge, total_variation
from tests.numpy_gpt2 import softmax

#: Row -> its weights, computed from the numbers in the texts.
REAL = {
    "crane": softmax(np.array([[0.7, 0.7], [0.9, 0.1], [0.9, 0.1]]) @ [0.7, 0.7]),
    "scale": softmax(np.array([2.0, 1.0, 1.0, 0.0])),
    "mask": np.append(softmax(np.array([0.0437, 0.3405, 0.1484])), 0),
    "next": softmax(np.array([[0.9, 0.1], [0.1, 0.9], [0.3, 0.3], [0.8, -0.4]]) @ [1.6, 0.4]),
}


def in_hundredths(shares: Any) -> list[int]:
    """The nearest guess: rounded down, with the rest given to the largest fractions."""
    exact = 100 * np.asarray(shares, float)
    whole = np.floor(exact).astype(int)
    whole[np.argsort(whole - exact)[: 100 - whole.sum()]] += 1
    return [int(n) for n in whole]


def test_right_guess_is_close_and_no_mistake() -> None:
    for id, row in ROWS.items():
        result = judge(row, in_hundredths(REAL[id]))
        assert result.mistake == "", id
        assert result.off < 0.01, id


#: (row, guess with a typical mistake, part of the message).
MISTAKES = [
    ("crane", [34, 33, 33], "almost even"),
    ("crane", [10, 10, 80], "You gave most to “fish”"),
    ("crane", [20, 60, 20], "You gave most to “ate”"),
    ("crane", [96, 2, 2], "Nearly all went to one"),
    ("scale", [100, 0, 0, 0], "the root √hs was forgotten"),
    ("scale", [25, 25, 25, 25], "almost even"),
    ("scale", [50, 25, 25, 0], "divided by their sum"),
    ("scale", [0, 0, 0, 100], "You gave most to “key 3”"),
    ("mask", [23, 31, 25, 21], "“fish” comes later"),
    ("mask", [25, 25, 25, 25], "“fish” comes later"),
    ("mask", [28, 38, 31, 3], "“fish” comes later"),
    ("mask", [33, 34, 33, 0], "almost even"),
    ("mask", [0, 100, 0, 0], "Nearly all went to one"),
    ("mask", [8, 64, 28, 0], "divided by their sum"),
    ("mask", [60, 20, 20, 0], "You gave most to “A”"),
    ("next", [25, 25, 25, 25], "almost even"),
    ("next", [97, 1, 1, 1], "Nearly all went to one"),
    ("next", [10, 10, 10, 70], "You gave most to “ate”"),
]


def test_mistakes_are_explained_with_words_of_the_row(subtests: pytest.Subtests) -> None:
    for id, guess, text in MISTAKES:
        with subtests.test(id, guess=guess):
            result = judge(ROWS[id], guess)
            assert text in result.mistake
            far = np.abs(np.array(guess) / 100 - REAL[id]).sum() / 2
            assert result.off == pytest.approx(far, abs=1e-6)
            assert {*re.findall("“(.*?)”", result.mistake)} <= {*ROWS[id].words}


@pytest.mark.parametrize("id", ROWS)
def test_mistakes_must_be_nearer_than_the_truth(id: str) -> None:
    """Of all guesses in tenths, those with a mistake are nearer to it than to the truth."""
    row, n = ROWS[id], len(ROWS[id].words)
    n_mistakes = 0
    for tenths in product(range(11), repeat=n):
        if sum(tenths) != 10:
            continue
        guess = [10 * part for part in tenths]
        result = judge(row, guess)
        shares, real = np.array(guess) / 100, REAL[id]
        far = np.abs(shares - real).sum() / 2
        assert 0 <= result.off <= 1
        assert result.off == pytest.approx(far, abs=1e-6)
        n_mistakes += bool(result.mistake)
        if "almost even" in result.mistake:
            seen = n - row.later
            assert np.abs(shares[:seen] - 1 / seen).sum() / 2 < far / 2
        if "You gave most" in result.mistake:
            assert real[shares.argmax()] < real.max()
        if "comes later" in result.mistake:
            assert shares[n - row.later :].any()
        elif far <= CLOSE:
            assert result.mistake == ""
    assert n_mistakes


def test_missing_root_and_missing_exponential_are_named() -> None:
    raw = np.array([16.0, 8.0, 8.0, 0.0])
    assert "√hs" in judge(ROWS["scale"], in_hundredths(softmax(raw))).mistake
    assert "by their sum" in judge(ROWS["scale"], in_hundredths(raw / raw.sum())).mistake
    assert "√hs" in judge(Row(("a", "b"), (2.0, 0.0), hs=16), in_hundredths([0.881, 0.119])).mistake
    assert total_variation([1, 0], [0, 1]) == 1
    assert total_variation([0.5, 0.5], [0.5, 0.5]) == 0


JUNK: list[Any] = [
    *(None, 7, "34,33,33", {}, {"0": 100}, True, (34, 33, 33)),
    *([], [100], [50, 50], [25, 25, 25, 25], [34, 33, 34], [0, 0, 0], [101, -1, 0]),
    *([float("nan"), 50, 50], [float("inf"), 0, 0], [34.0, 33.0, 33.0], [0.34, 0.33, 0.33]),
    *([None, 50, 50], ["34", 33, 33], [True, 99, 0], [[34], 33, 33], [10**30, -(10**30), 100]),
]


def test_invalid_guesses_are_refused() -> None:
    for junk in JUNK:
        assert not fits(junk, ROWS["crane"]), junk
        with pytest.raises(ValueError):
            judge(ROWS["crane"], junk)
