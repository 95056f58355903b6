"""Numbers in formulas, with enough digits that each result follows from the numbers shown.

Inputs have all their digits, results are rounded and marked by ≈, and intermediate numbers have
enough decimals to compute the result from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpt2viz.analysis.sampling import softmax
from gpt2viz.textbook.attention import Steps

#: Most characters of a number that fit in a field of a table.
_FITS = 8


def latex(values: ArrayLike) -> str:
    """Format numbers with all their digits: a LaTeX row vector, or a single number."""
    return _row(values, format_shortest)


def latex_decimals(values: ArrayLike, digits: int) -> str:
    """Format like ``latex``, rounded to ``digits`` decimals; −∞ and NaN are named."""
    return _row(values, lambda x: f"{round(x, digits) + 0.0:.{digits}f}")


def equals(values: ArrayLike, digits: int = 4) -> str:
    """Format like ``latex_decimals``, preceded by = if rounding loses nothing, else by ≈."""
    numbers = np.asarray(values, np.float64)
    finite, unit = numbers[np.isfinite(numbers)], 10.0**-digits
    noise = np.minimum(np.finfo(np.float32).eps * np.maximum(1, np.abs(finite)), unit / 100)
    sign = "=" if np.all(np.abs(finite - finite.round(digits)) <= noise) else r"\approx"
    return rf"{sign} {latex_decimals(values, digits)}"


def latex_brief(values: ArrayLike, digits: int) -> str:
    """Format like ``latex`` if all numbers are whole, else like ``latex_decimals``."""
    return latex(values) if _is_whole(values) else latex_decimals(values, digits)


def equals_brief(values: ArrayLike) -> str:
    """Format like ``latex_brief``, preceded by the sign of ``equals``."""
    return f"= {latex(values)}" if _is_whole(values) else equals(values)


def decimals(
    values: ArrayLike,
    leads_to: Callable[[NDArray[Any]], ArrayLike],
    result: ArrayLike,
    digits: int = 4,
) -> int:
    """Return how many decimals ``values`` need, so that the ``result`` shown follows from them.

    It is the fewest, from ``digits`` to 9, with which ``leads_to`` of the rounded values differs
    from the result by no more than rounding it to ``digits`` decimals.
    """
    exact = np.asarray(values, np.float64)
    for n in range(digits, 9):
        again = np.asarray(leads_to(exact.round(n)), np.float64)
        if np.allclose(again, result, rtol=3e-7, atol=0.5 * 10.0**-digits):
            return n
    return 9


def mixture(steps: Steps, row: int, temperature: float = 1) -> list[tuple[str, str]]:
    """Return one query's unscaled scores, weights and output as (name, formatted numbers).

    Each follows from the one before, if the mask hides no key. ``temperature`` is the softmax's.
    """
    raw, weights, output = (
        np.asarray(part[row], np.float64) for part in (steps.scores, steps.weights, steps.output)
    )
    n = decimals(weights, lambda w: w @ np.asarray(steps.v, np.float64), output)
    m = decimals(raw, lambda s: softmax(s / temperature), weights, n)
    return [
        ("scores", equals(raw, m)),
        ("weights", equals(weights, n)),
        ("output", equals(output)),
    ]


def product(q: ArrayLike, k: ArrayLike, score: float) -> str:
    """Write out a dot product, number by number, followed by a sign and the ``score``."""
    n = decimals(np.stack([q, k]), lambda both: both[0] @ both[1], score)
    terms = (
        rf"{bracket(latex_brief(a, n))} \cdot {bracket(latex_brief(b, n))}"
        for a, b in zip(np.asarray(q), np.asarray(k), strict=True)
    )
    return f"{' + '.join(terms)} {equals_brief(score)}"


def bracket(number: str) -> str:
    """Put a number that begins with a minus sign in brackets, to follow a + or a dot."""
    return f"({number})" if number.startswith("-") else number


def format_shortest(x: float) -> str:
    """Format a number with the fewest digits that identify it among float32 numbers."""
    return np.format_float_positional(np.float32(x), trim="-")


def format_for_field(x: float) -> str:
    """Format like ``format_shortest`` if that fits in a field, else with 4 significant digits."""
    exact = format_shortest(x)
    return exact if len(exact.lstrip("-")) <= _FITS else format_shortest(float(f"{x:.4g}"))


def _is_whole(values: ArrayLike) -> bool:
    numbers = np.asarray(values, np.float64)
    return bool(np.all(np.isfinite(numbers) & (numbers == numbers.round())))


def _row(values: ArrayLike, write: Callable[[float], str]) -> str:
    flat = [_number(float(x), write) for x in np.ravel(values)]
    return flat[0] if np.ndim(values) == 0 else "[" + r",\; ".join(flat) + "]"


def _number(x: float, write: Callable[[float], str]) -> str:
    if math.isinf(x):
        return r"-\infty" if x < 0 else r"\infty"
    return r"\text{NaN}" if math.isnan(x) else write(x)
