"""Every example's results equal the oracle's, and its verdicts follow from them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpt2viz.textbook.claims import TEXTS, Claim
from gpt2viz.textbook.examples import EXAMPLES, claims
from tests.textbook.oracle import RESULTS

#: The positions of claims that differ from the texts, by example; all other printed ones agree.
DIFFERS = {
    "E1": [1],
    "E5": [2, 4],
    "E7": [2, 3, 4, 5, 6],
    "E10": [0, 4, 5],
    "E16": [8],
    "E18": [4, 6, 8, 9, 10, 12, 13, 14, 15],
    "E19": [2],
    "E20": [1],
    "E23": [1, 4],
}


def test_every_example_has_results() -> None:
    assert list(EXAMPLES) == list(RESULTS) == [f"E{n}" for n in range(1, 27)]
    assert all(example.id == id for id, example in EXAMPLES.items())
    assert all(set(example.texts) <= set(TEXTS) for example in EXAMPLES.values())


def test_results_and_verdicts_equal_the_oracles(subtests: pytest.Subtests) -> None:
    for id, results in RESULTS.items():
        for n, (claim, expected) in enumerate(zip(claims(id), results, strict=True)):
            with subtests.test(id, what=claim.what):
                if isinstance(expected, str):
                    assert claim.computed == expected
                elif expected is not None:
                    assert_allclose(np.ravel(claim.computed), np.ravel(expected), atol=5e-5)
                verdict = "differs" if n in DIFFERS.get(id, []) else "agrees"
                assert claim.verdict == (verdict if claim.printed else "")
                # It says why it differs, or that the reason is unknown.
                assert claim.why or claim.verdict != "differs"
                words = claim.printed.split()
                if re.fullmatch(r"[-\d. ]+", claim.printed) and not isinstance(claim.computed, str):
                    # A result agrees if it rounds to the printed digits.
                    digits = [len(word.partition(".")[2]) for word in words]
                    result = zip(np.ravel(claim.computed), digits, strict=True)
                    rounded = [round(float(x), n) for x, n in result]
                    same = np.allclose(rounded, np.array(words, float), rtol=0, atol=1e-9)
                    assert same == (claim.verdict == "agrees")


def test_random_results_are_within_bounds() -> None:
    zeros = float(np.ravel(claims("E13")[0].computed)[0])
    assert abs(zeros - 0.1) < 4 * np.sqrt(0.1 * 0.9 / 100_000)
    raw, scaled, whole, eighth = (float(np.ravel(c.computed)[0]) for c in claims("E22"))
    assert raw == pytest.approx(64, rel=4 * np.sqrt(2 / 40_000))
    assert scaled == pytest.approx(raw / 64, rel=1e-4)
    assert 1 / 8 < eighth < whole < 1  # means of draws: see test_sentences
    _, plain, small = (float(np.ravel(c.computed)[0]) for c in claims("E17"))
    assert 1 < small < 2 < plain  # 24 additions of size s, or of s / √24: see test_modules
    pre, post = np.ravel(claims("E12")[3].computed)
    assert post == pytest.approx(1, abs=1e-3)
    assert pre > 2
    pre, post = np.ravel(claims("E12")[4].computed)
    assert pre == 1
    assert post < 0.001


def test_every_tensor_has_its_line_and_every_parameter_its_module() -> None:
    total, known = np.ravel(claims("E25")[0].computed)
    assert total == known > 50
    shown, counted = np.ravel(claims("E26")[1].computed)
    assert shown == counted > 0


def test_verdict_allows_half_a_unit_of_the_last_digit() -> None:
    for printed, agreeing, differing in (
        ("0.98", 0.98, 0.9851),
        ("~2.39", 2.3903, 2.3803),
        ("124M", 124_439_808, 124_510_000),
        ("1.5B", 1_540_000_000, 1_557_611_200),
        ("2,359,296", 2_359_296, 2_359_297),
        ("31%", 0.3145, 0.3151),
        ("-0.15 2", [-0.1543, 2.0], [-0.1443, 2.0]),
        ("True", "True", "False"),
    ):
        assert Claim("", printed, agreeing).verdict == "agrees", printed
        assert Claim("", printed, differing).verdict == "differs", printed
    assert Claim("", "", 1.0).verdict == ""
    with pytest.raises(ValueError, match="zip"):  # as many numbers as printed
        _ = Claim("", "1 2", [1.0]).verdict
