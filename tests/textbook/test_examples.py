"""Every example by its id: results as the oracle has them, and verdicts that follow from them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpt2viz.textbook.claims import TEXTS, Claim
from gpt2viz.textbook.examples import EXAMPLES, claims
from tests.textbook.oracle import RESULTS

IDS = [f"E{n}" for n in range(1, 27)]

#: What differs from the texts, by example: the places of the claims. All other printed ones agree.
DIFFERS = {
    "E1": [1],
    "E5": [2, 4],
    "E7": [2, 3, 4, 5, 6],
    "E10": [0, 4, 5],
    "E16": [8],
    "E18": [3, 5, 6, 7, 9, 10, 11, 12],
    "E19": [2],
    "E20": [1],
    "E23": [1, 4],
}


def test_there_are_26_examples() -> None:
    assert list(EXAMPLES) == IDS == list(RESULTS)
    assert all(example.id == id for id, example in EXAMPLES.items())
    assert all(set(example.texts) <= set(TEXTS) for example in EXAMPLES.values())


@pytest.mark.parametrize("id", IDS)
def test_results_are_those_of_the_oracle(id: str) -> None:
    for claim, expected in zip(claims(id), RESULTS[id], strict=True):
        if isinstance(expected, str):
            assert claim.computed == expected, claim.what
        elif expected is not None:
            assert_allclose(
                np.ravel(claim.computed), np.ravel(expected), atol=5e-5, err_msg=claim.what
            )


@pytest.mark.parametrize("id", IDS)
def test_verdicts(id: str) -> None:
    for n, claim in enumerate(claims(id)):
        expected = ("differs" if n in DIFFERS.get(id, []) else "agrees") if claim.printed else ""
        assert claim.verdict == expected, claim.what
        if claim.verdict == "differs":
            assert claim.why, f"{claim.what}: say why it differs, or that nobody knows"


@pytest.mark.parametrize("id", IDS)
def test_verdicts_of_numbers_by_rounding(id: str) -> None:
    """A number that agrees is the printed one when it is rounded to the printed digits."""
    for claim in claims(id):
        plain = re.fullmatch(r"[-\d. ]+", claim.printed)
        if plain and not isinstance(claim.computed, str):
            words = claim.printed.split()
            digits = [len(word.partition(".")[2]) for word in words]
            rounded = [
                round(float(x), n) for x, n in zip(np.ravel(claim.computed), digits, strict=True)
            ]
            same = np.allclose(rounded, [float(word) for word in words], rtol=0, atol=1e-9)
            assert same == (claim.verdict == "agrees"), claim.what


def test_drawn_results_lie_where_they_must() -> None:
    zeros = float(np.ravel(claims("E13")[0].computed)[0])
    assert abs(zeros - 0.1) < 4 * np.sqrt(0.1 * 0.9 / 100_000)
    raw, scaled, one, eighth = (float(np.ravel(c.computed)[0]) for c in claims("E22"))
    assert raw == pytest.approx(64, rel=4 * np.sqrt(2 / 40_000))
    assert scaled == pytest.approx(raw / 64, rel=1e-4)
    assert 1 / 8 < eighth < one < 1  # means of draws: see test_sentences
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


@pytest.mark.parametrize(
    ("printed", "computed", "verdict"),
    [
        ("0.98", 0.98, "agrees"),
        ("0.98", 0.9851, "differs"),
        ("~2.39", 2.3803, "differs"),
        ("124M", 124_439_808, "agrees"),
        ("124M", 124_510_000, "differs"),
        ("1.5B", 1_557_611_200, "differs"),
        ("2,359,296", 2_359_296, "agrees"),
        ("31%", 0.3145, "agrees"),
        ("31%", 0.3151, "differs"),
        ("-0.15 2", [-0.1543, 2.0], "agrees"),
        ("True", "True", "agrees"),
        ("True", "False", "differs"),
        ("", 1.0, ""),
    ],
)
def test_a_verdict_is_half_a_unit_of_the_last_printed_digit(
    printed: str, computed: float | list[float] | str, verdict: str
) -> None:
    assert Claim("", printed, computed).verdict == verdict


def test_as_many_numbers_as_printed() -> None:
    with pytest.raises(ValueError, match="zip"):
        _ = Claim("", "1 2", [1.0]).verdict
