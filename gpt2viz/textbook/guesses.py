"""Rows of attention weights that a reader predicts before they are shown, and replies to a guess.

A guess is in whole hundredths, so that it always sums to 1. Its error is the total variation
distance, half the sum of the absolute differences: the share that would have to move for one row to
become the other (Levin, Peres & Wilmer 2009, *Markov Chains and Mixing Times*, chapter 4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from gpt2viz.arrays import Numbers
from gpt2viz.textbook import attention, logits
from gpt2viz.textbook.tensors import rows

#: Hundredths that a guess sums to.
WHOLE = 100
#: A guess with an error up to this counts as right.
CLOSE = 0.04
#: A guess is attributed to a mistake if it differs from that mistake's result by at most this.
_LIKE = 0.1
#: More weight than this on a masked key counts as a mistake.
_SEEN = 0.02


class Row(NamedTuple):
    """The scores (n,) of one query with the keys of ``words``, whose weights are to be predicted.

    Before softmax they are divided by √``hs``. The last ``later`` keys come after the query, and
    are masked. ``text`` asks for the weights, ``title`` names them, and ``named`` the scores.
    """

    words: tuple[str, ...]
    scores: tuple[float, ...]
    text: str = ""
    title: str = ""
    named: str = "scores"
    hs: int = 1
    later: int = 0


class Verdict(NamedTuple):
    """The error of a guess, from 0 to 1, and the mistake that explains it; "" for none."""

    off: float
    mistake: str


#: The rows to predict: one each of E4, E7 and E14, and for E22 one of round numbers, which reveals
#: a forgotten root.
ROWS: Mapping[str, Row] = {
    "crane": Row(
        attention.CRANE_WORDS["bird"],
        tuple(attention.crane("bird").scores[0].tolist()),
        "How much weight does **crane** give to each word?",
        "weights of crane",
    ),
    "scale": Row(
        ("key 0", "key 1", "key 2", "key 3"),
        (16.0, 8.0, 8.0, 0.0),
        "Take a query of 64 numbers and four keys, with round scores. How much weight does each "
        "key get, once the scores are divided by √64 = 8?",
        "weights of the four keys",
        "scores before they are divided",
        hs=64,
    ),
    "mask": Row(
        attention.SENTENCE,
        attention.PRINTED_SCALED[2],
        "How much weight does **ate** give to each word?",
        "weights of ate",
        later=1,
    ),
    "next": Row(
        logits.FOUR,
        tuple(logits.logits(logits.LAST, logits.EMBEDDING)[0].tolist()),
        "How probable is each word?",
        "probabilities",
        "logits",
    ),
}

_EVEN = "It is almost even, as if the scores didn't count. A higher score gets more."
_UNSCALED = "It fits the scores before they are divided: the root √hs was forgotten."
_NO_EXP = (
    "It fits each score divided by their sum. Softmax first raises e to the power of each score."
)
_ALL_TO_ONE = "Nearly all went to one. Softmax leaves something to every score that isn't masked."
_NOT_HIGHEST = (
    "You gave most to “{}”, which doesn't have the highest score. Weights follow scores, however "
    "much a word may seem to matter."
)
_MASKED = "“{}” comes later. The mask gives it a weight of exactly 0."


def scaled_scores(row: Row) -> Tensor:
    """The input of softmax (n,): scores divided by √hs, −∞ where the key is masked."""
    scores = rows(row.scores) / math.sqrt(row.hs)
    scores[len(scores) - row.later :] = -math.inf
    return scores


def weights(row: Row) -> Tensor:
    """The true weights (n,)."""
    return scaled_scores(row).softmax(dim=-1)


def total_variation(guess: ArrayLike, real: ArrayLike) -> float:
    """The total variation distance of two rows (n,) that sum to 1: from 0 to 1."""
    return float(np.abs(np.subtract(guess, real, dtype=float)).sum() / 2)


def fits(guess: object, row: Row) -> TypeGuard[list[int]]:
    """True for a valid guess from a browser or a file: whole hundredths that sum to 1."""
    return (
        isinstance(guess, list)
        and len(guess) == len(row.words)
        and all(type(share) is int and 0 <= share <= WHOLE for share in guess)
        and sum(guess) == WHOLE
    )


def judge(row: Row, guess: list[int]) -> Verdict:
    """Score a guess in hundredths. Raises ``ValueError`` if it is invalid for the row."""
    if not fits(guess, row):
        raise ValueError(guess)
    given, real = np.array(guess) / WHOLE, np.asarray(weights(row), float)
    return Verdict(total_variation(given, real), _mistake(row, given, real))


def _mistake(row: Row, given: Numbers, real: Numbers) -> str:
    """The mistake whose result is nearest to a guess (n,), if clearly nearer than the truth.

    "" for none, and for a close guess.
    """
    seen, off = len(row.words) - row.later, total_variation(given, real)
    if row.later and given[seen:].max() > _SEEN:
        return _MASKED.format(row.words[seen + int(given[seen:].argmax())])
    if off <= CLOSE:
        return ""
    typical = _typical(row)
    nearest = min(typical, key=lambda sentence: total_variation(given, typical[sentence]))
    distance = total_variation(given, typical[nearest])
    if distance <= _LIKE and distance < off / 2:
        return nearest
    most = int(given.argmax())
    return _NOT_HIGHEST.format(row.words[most]) if real[most] < real.max() else ""


def _typical(row: Row) -> dict[str, Numbers]:
    """Typical mistakes: the message about each -> the weights (n,) that result from it."""
    seen = len(row.scores) - row.later
    shares = np.asarray(scaled_scores(row), float)[:seen]
    mistakes = {_EVEN: np.full(seen, 1 / seen)}
    if row.hs > 1:  # that often leaves nearly all to one
        mistakes[_UNSCALED] = np.asarray(weights(row._replace(hs=1)), float)[:seen]
    else:
        mistakes[_ALL_TO_ONE] = np.eye(seen)[shares.argmax()]
    if shares.min() >= 0 and shares.sum() > 0:
        mistakes[_NO_EXP] = shares / shares.sum()
    return {sentence: np.pad(shares, (0, row.later)) for sentence, shares in mistakes.items()}
