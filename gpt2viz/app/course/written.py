"""Numbers in formulas, so that what is written follows from what is written.

Inputs stand with all their digits, results are rounded and say so by ≈, and what a result is
worked out from has decimals enough to get there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpt2viz.analysis.sampling import softmax
from gpt2viz.textbook.attention import Steps

#: So many characters of a number can be read in a field of a table.
_FITS = 8


def given(values: ArrayLike) -> str:
    """A table's numbers with all their digits: a LaTeX row vector, or one number as itself."""
    return _row_of(values, shortest)


def spelled(values: ArrayLike, digits: int = 4) -> str:
    """Numbers rounded to ``digits`` decimals, as ``given`` writes them; −∞ and NaN are named."""
    return _row_of(values, lambda x: f"{round(x, digits) + 0.0:.{digits}f}")


def equals(values: ArrayLike, digits: int = 4) -> str:
    """``spelled`` with the sign before it: = where nothing is lost by rounding, else ≈."""
    numbers = np.asarray(values, np.float64)
    finite, unit = numbers[np.isfinite(numbers)], 10.0**-digits
    noise = np.minimum(np.finfo(np.float32).eps * np.maximum(1, np.abs(finite)), unit / 100)
    sign = "=" if np.all(np.abs(finite - finite.round(digits)) <= noise) else r"\approx"
    return rf"{sign} {spelled(values, digits)}"


def brief(values: ArrayLike, digits: int = 4) -> str:
    """``given`` where all numbers are whole, else ``spelled``."""
    return given(values) if _whole(values) else spelled(values, digits)


def gives(values: ArrayLike, digits: int = 4) -> str:
    """``brief`` with the sign before it that ``equals`` writes."""
    return f"= {given(values)}" if _whole(values) else equals(values, digits)


def enough(
    values: ArrayLike,
    leads_to: Callable[[NDArray[Any]], ArrayLike],
    result: ArrayLike,
    digits: int = 4,
) -> int:
    """The decimals that ``values`` need, so that the ``result`` shown follows from them.

    The fewest, from ``digits`` to 9, with which ``leads_to`` of the rounded values is off the
    result by no more than rounding that to ``digits`` decimals.
    """
    exact = np.asarray(values, np.float64)
    for n in range(digits, 9):
        again = np.asarray(leads_to(exact.round(n)), np.float64)
        if np.allclose(again, result, rtol=3e-7, atol=0.5 * 10.0**-digits):
            return n
    return 9


def mixture(steps: Steps, row: int, temperature: float = 1) -> list[tuple[str, str]]:
    """One query's unscaled scores, weights and output as (name, sign and numbers), one a step.

    Each follows from the last, where the mask hides no key. ``temperature`` is what softmax divided
    the scores by.
    """
    raw, weights, output = (
        np.asarray(part[row], np.float64) for part in (steps.scores, steps.weights, steps.output)
    )
    n = enough(weights, lambda w: w @ np.asarray(steps.v, np.float64), output)
    m = enough(raw, lambda s: softmax(s / temperature), weights, n)
    return [
        ("scores", equals(raw, m)),
        ("weights", equals(weights, n)),
        ("output", equals(output)),
    ]


def product(q: ArrayLike, k: ArrayLike, score: float) -> str:
    """A dot product written out, number by number, with the sign and the ``score`` behind it."""
    n = enough(np.stack([q, k]), lambda both: both[0] @ both[1], score)
    terms = (
        rf"{bracketed(brief(a, n))} \cdot {bracketed(brief(b, n))}"
        for a, b in zip(np.asarray(q), np.asarray(k), strict=True)
    )
    return f"{' + '.join(terms)} {gives(score)}"


def bracketed(number: str) -> str:
    """A number as written behind a + or a dot: in brackets where it begins with a sign."""
    return f"({number})" if number.startswith("-") else number


def shortest(x: float) -> str:
    """The fewest digits that tell a number from all others of 32 bits."""
    return np.format_float_positional(np.float32(x), trim="-")


def in_a_field(x: float) -> str:
    """``shortest`` where that is as short as people type; else four significant digits."""
    exact = shortest(x)
    return exact if len(exact.lstrip("-")) <= _FITS else shortest(float(f"{x:.4g}"))


def _whole(values: ArrayLike) -> bool:
    numbers = np.asarray(values, np.float64)
    return bool(np.all(np.isfinite(numbers) & (numbers == numbers.round())))


def _row_of(values: ArrayLike, write: Callable[[float], str]) -> str:
    flat = [_number(float(x), write) for x in np.ravel(values)]
    return flat[0] if np.ndim(values) == 0 else "[" + r",\; ".join(flat) + "]"


def _number(x: float, write: Callable[[float], str]) -> str:
    if math.isinf(x):
        return r"-\infty" if x < 0 else r"\infty"
    return r"\text{NaN}" if math.isnan(x) else write(x)
